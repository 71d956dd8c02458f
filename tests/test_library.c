/* test_library.c - bytes that a library took (cli/library.c), over a device whose used bytes the
 * tests decide: what is told after a quiet run, when another program moves bytes, when less is gone
 * than we took, and what the driver's own rounding is called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/size.h"
#include "cli/cli.h"

#define BASELINE (256 * MT_MIB)

/* What the device says, look by look; the last value stays. */
static uint64_t says[8];
static int looks, values;

static mt_status device_used(mt_source *s, uint64_t *used, mt_error *err) {
    (void)s, (void)err;
    *used = says[looks < values ? looks : values - 1];
    looks++;
    return MT_OK;
}

static char text[2048];

static void add_line(void *context, const char *name, const char *value, mt_value_kind kind) {
    (void)context, (void)kind;
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "%s %s\n", name, value);
}

static const cli_sink lines = { add_line, NULL };

/* A session with nothing but a device, and one segment of 2 MiB that serves half of it. */
typedef struct rig {
    cli_session s;
    mt_device device;
    mt_cuda_note notes[3];
    uint32_t noted;
    mt_mem mem;
    mt_error err;
} rig;

static void open_rig(rig *r, uint64_t driver_rounding) {
    mt_request request = { .bytes = MT_MIB, .tag = MT_KV, .layer = 0 };
    memset(r, 0, sizeof *r);
    r->notes[0] = (mt_cuda_note){ .what = "context", .bytes = BASELINE, .calls = 1 };
    r->notes[1] = (mt_cuda_note){ .what = "cublasCreate", .bytes = 4 * MT_MIB, .calls = 1 };
    r->notes[2] = (mt_cuda_note){ .what = "matmul 1 x 2 x 3", .bytes = 7, .again = 1, .calls = 2 };
    r->noted = 3;
    r->s.cuda = (mt_cuda_backend){ .device = &r->device, .notes = r->notes, .noted = &r->noted };
    assert_int_equal(mt_source_sim(&r->s.source, MT_GIB, 4 * MT_KIB, &r->err), MT_OK);
    r->s.source->device_used = device_used;
    assert_int_equal(mt_alloc_open(&r->s.alloc, r->s.source, "block:2MiB", &r->err), MT_OK);
    assert_int_equal(mt_alloc_get(r->s.alloc, &request, &r->mem, &r->err), MT_OK);
    r->s.source->driver_bytes = 2 * MT_MIB + driver_rounding;
    looks = values = 0;
    text[0] = '\0';
}

static void close_rig(rig *r) {
    mt_alloc_put(r->s.alloc, &r->mem, NULL);
    mt_alloc_close(r->s.alloc);
    r->s.source->close(r->s.source);
}

static void say(uint64_t library, uint64_t driver_rounding) {
    says[values++] = BASELINE + 2 * MT_MIB + driver_rounding + library;
}

static void assert_told(const char *line) {
    if (strstr(text, line) == NULL)
        fail_msg("expected \"%s\" in:\n%s", line, text);
}

static void test_quiet(void **state) {
    (void)state;
    rig r;
    cli_library l = { 0 };
    open_rig(&r, 0);
    say(6 * MT_MIB, 0);
    assert_int_equal(cli_library_look(&l, &r.s, &r.err), MT_OK);
    assert_int_equal(cli_library_look(&l, &r.s, &r.err), MT_OK);
    assert_int_equal(looks, 4); /* twice each time */
    cli_library_lines(&l, &r.s, lines);
    assert_told("library matmul 1 x 2 x 3 +7, again +1\n");
    assert_told("library code +2097144 "); /* less what cublasCreate and the product took */
    assert_told("library after warm-up 6291456\n");
    assert_told("library at the end 6291456\n");
    assert_told("library change +0\n");
    assert_told("driver rounding 0\n");
    close_rig(&r);
}

/* What came after the warm-up is a change; what the driver rounded is not. */
static void test_change_and_rounding(void **state) {
    (void)state;
    rig r;
    cli_library l = { 0 };
    open_rig(&r, 1536);
    say(0, 1536), say(0, 1536), say(4096, 1536);
    assert_int_equal(cli_library_look(&l, &r.s, &r.err), MT_OK);
    assert_int_equal(cli_library_look(&l, &r.s, &r.err), MT_OK);
    cli_library_lines(&l, &r.s, lines);
    assert_told("library after warm-up 0\n");
    assert_told("library at the end 4096\n");
    assert_told("library change +4096\n");
    assert_told("driver rounding 1536\n");
    close_rig(&r);
}

/* Bytes that move while we do nothing are another program's: nothing is said of the rest, whatever
 * the other looks saw, and too few bytes are no error then. */
static void test_shared(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) {
        rig r;
        cli_library l = { 0 };
        open_rig(&r, 0);
        say(which == 0 ? 1 : 0, 0), say(0, 0), say(0, 0);
        if (which == 1)
            say(MT_MIB, 0);
        if (which == 2)
            says[values++] = BASELINE; /* less than we hold */
        assert_int_equal(cli_library_look(&l, &r.s, &r.err), MT_OK);
        assert_int_equal(cli_library_look(&l, &r.s, &r.err), MT_OK);
        assert_true(l.shared);
        cli_library_lines(&l, &r.s, lines);
        assert_told("library unknown: device shared\n");
        assert_null(strstr(text, "library change"));
        assert_null(strstr(text, "library at the end"));
        close_rig(&r);
    }
}

static void test_negative(void **state) {
    (void)state;
    rig r;
    cli_library l = { 0 };
    open_rig(&r, 0);
    says[values++] = BASELINE + 2 * MT_MIB - 1;
    assert_int_equal(cli_library_look(&l, &r.s, &r.err), MT_CHECK);
    assert_non_null(strstr(r.err.text, "library bytes are negative: 270532607 used on the device, "
                                       "2097152 of them ours, 268435456 the baseline"));
    close_rig(&r);
}

/* Other back ends have no such device: nothing is asked and nothing told. */
static void test_no_device(void **state) {
    (void)state;
    rig r;
    cli_library l = { 0 };
    open_rig(&r, 0);
    r.s.cuda.device = NULL;
    say(0, 0);
    assert_int_equal(cli_library_look(&l, &r.s, &r.err), MT_OK);
    assert_int_equal(looks, 0);
    cli_library_header(&r.s, lines);
    cli_library_lines(&l, &r.s, lines);
    assert_string_equal(text, "");
    close_rig(&r);
}

static void test_header(void **state) {
    (void)state;
    rig r;
    open_rig(&r, 0);
    r.s.o.workspace = "library";
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);
    cli_library_header(&r.s, lines);
    unsetenv("CUBLAS_WORKSPACE_CONFIG");
    assert_told("library baseline 268435456 ");
    assert_told("library cublasCreate +4194304\n");
    assert_told("library workspace its own, CUBLAS_WORKSPACE_CONFIG :4096:8\n");
    close_rig(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet),     cmocka_unit_test(test_change_and_rounding),
        cmocka_unit_test(test_shared),    cmocka_unit_test(test_negative),
        cmocka_unit_test(test_no_device), cmocka_unit_test(test_header),
    };
    return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}
