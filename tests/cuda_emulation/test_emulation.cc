/* test_emulation.cc - the emulated device keeps its rules. A file of tests for each of them. */
#include "test.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

int fresh_device(void **) {
    mt_emulation_reset();
    mt_emulation_set_quiet(true);
    return 0;
}

int nothing_left(void **) {
    return mt_emulation_print_leaks(stderr) ? -1 : 0;
}

float *floats(size_t n) {
    float *p;
    OK(cudaMalloc(&p, n * sizeof *p));
    return p;
}

float *floats_of(const std::vector<float> &values) {
    float *p = floats(values.size());
    OK(cudaMemcpy(p, values.data(), values.size() * sizeof *p, cudaMemcpyHostToDevice));
    return p;
}

std::vector<float> read(const float *from, size_t n) {
    std::vector<float> values(n);
    OK(cudaMemcpy(values.data(), from, n * sizeof *from, cudaMemcpyDeviceToHost));
    return values;
}

uint64_t used() {
    size_t free_bytes, total;
    OK(cudaMemGetInfo(&free_bytes, &total));
    return total - free_bytes;
}

bool dies(const std::function<void()> &access) {
    fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        access();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

int main(int, char **argv) {
    std::vector<CMUnitTest> tests;
    if (const char *what = getenv("MT_EMULATION_CHILD"))
        return test_child(what);
    setenv("MT_EMULATION_SELF", argv[0], 1);
    add_threads_tests(&tests);
    add_memory_tests(&tests);
    add_pools_tests(&tests);
    add_physical_tests(&tests);
    add_graphs_tests(&tests);
    add_cublas_tests(&tests);
    add_failures_tests(&tests);
    return _cmocka_run_group_tests("emulated device", tests.data(), tests.size(), nullptr, nullptr);
}
