/* test.h - what the tests of the emulated device share. */
#ifndef MT_EMULATION_TEST_H
#define MT_EMULATION_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {
#include <cmocka.h>
}

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <functional>
#include <vector>

#include "kernels/cuda/launch.h"
#include "tests/cuda_emulation/control.h"

const size_t KIB = 1024;
const size_t MIB = 1024 * KIB;

#define OK(call)              assert_int_equal((call), 0)
#define GIVES(code, call)     assert_int_equal((call), (code))
#define FAULTS(count)         assert_int_equal(mt_emulation_faults(), (count))
#define TEST(name)            cmocka_unit_test_setup_teardown(name, fresh_device, nothing_left)
#define LAST_FAULT_HAS(words) assert_non_null(strstr(mt_emulation_last_fault(), words))

/* Before each test: a device as after power-on, which keeps its faults to itself. After it: nothing
 * may be left behind. */
int fresh_device(void **state);
int nothing_left(void **state);

/* A device array of n floats, and one with given contents. */
float *floats(size_t n);
float *floats_of(const std::vector<float> &values);
std::vector<float> read(const float *from, size_t n);

/* Bytes of the device in use, as cudaMemGetInfo tells. */
uint64_t used();

/* Whether a child process that does this dies of an access that memory protection stops. */
bool dies(const std::function<void()> &access);

void add_threads_tests(std::vector<CMUnitTest> *all);
void add_memory_tests(std::vector<CMUnitTest> *all);
void add_pools_tests(std::vector<CMUnitTest> *all);
void add_physical_tests(std::vector<CMUnitTest> *all);
void add_graphs_tests(std::vector<CMUnitTest> *all);
void add_cublas_tests(std::vector<CMUnitTest> *all);
void add_failures_tests(std::vector<CMUnitTest> *all);

/* What the program does when the environment says that it is a child of its own tests. */
int test_child(const char *what);

#endif
