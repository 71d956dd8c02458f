/* main.c - libFuzzer's way into one target: MT_FUZZ is its name. */
#include "tests/fuzz/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    MT_FUZZ(data, n);
    return 0;
}
