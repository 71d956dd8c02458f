/* test_emulation.cc - the emulated device keeps its rules. One group of tests for each of them. */
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
    int failed = 0;
    if (const char *what = getenv("MT_EMULATION_CHILD"))
        return test_child(what);
    setenv("MT_EMULATION_SELF", argv[0], 1);
    test_group_threads(&failed);
    test_group_memory(&failed);
    test_group_pools(&failed);
    test_group_physical(&failed);
    test_group_graphs(&failed);
    test_group_cublas(&failed);
    test_group_failures(&failed);
    return failed != 0;
}
