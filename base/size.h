/* size.h - byte counts: products and sums that cannot overflow unseen, and sizes as people write
 * them (64KiB, 2MiB, 1.5GiB; K, M, G and KB, MB, GB mean the same, in either case; nothing or B
 * means bytes). */
#ifndef MT_BASE_SIZE_H
#define MT_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_KIB ((uint64_t)1 << 10)
#define MT_MIB ((uint64_t)1 << 20)
#define MT_GIB ((uint64_t)1 << 30)

/* *out = a * b, a + b; false and *out untouched when that does not fit 64 bits. */
static inline bool mt_mul(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool mt_add(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* n rounded up to a multiple of step (step > 0). The caller knows that n + step does not
 * overflow. */
static inline uint64_t mt_round_up(uint64_t n, uint64_t step) {
    return (n + step - 1) / step * step;
}

/* Reads a size such as "64KiB" or "1.5GiB" that fills the whole string. False when it is none,
 * overflows or is no whole number of bytes. */
bool mt_parse_size(const char *text, uint64_t *bytes);

/* Whether text has a number with the unit KB, MB or GB, which elsewhere may mean powers of 1000. */
bool mt_names_decimal_unit(const char *text);

/* Reads the decimal digits at *text and moves past them; false, and nothing moved, when there is
 * none or the number does not fit. 19 digits always fit. */
static inline bool mt_digits(const char **text, uint64_t *value) {
    const char *at = *text;
    uint64_t n = 0;
    unsigned digit;
    for (; (digit = (unsigned char)*at - (unsigned)'0') <= 9; at++) {
        if (at - *text < 19)
            n = n * 10 + digit;
        else if (!mt_mul(n, 10, &n) || !mt_add(n, digit, &n))
            return false;
    }
    if (at == *text)
        return false;
    *text = at;
    *value = n;
    return true;
}

/* Reads a decimal integer in [least, most] that fills the whole string. */
bool mt_parse_u64(const char *text, uint64_t least, uint64_t most, uint64_t *value);

/* Writes bytes as a person reads them ("547.7 MiB", "512 B"), at most 24 characters, and returns
 * buffer. */
char *mt_format_size(uint64_t bytes, char *buffer, size_t capacity);

#endif
