/* test_config.c - presets, sizes and config.json, whole and broken. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/size.h"
#include "engine/config.h"
#include "engine/checkpoint/weights.h"
#include "tests/temp_files.h"

static const char *const PRESETS[] = { "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl" };

/* ---- sizes ----------------------------------------------------------------------------------- */

static void test_dtypes(void **state) {
    (void)state;
    mt_dtype d;
    assert_int_equal(mt_dtype_bytes(MT_F32), 4);
    assert_int_equal(mt_dtype_bytes(MT_BF16), 2);
    assert_int_equal(mt_dtype_bytes(MT_F16), 2);
    for (int i = MT_F32; i <= MT_F16; i++) {
        assert_true(mt_dtype_parse(mt_dtype_name((mt_dtype)i), &d));
        assert_int_equal(d, i);
    }
    assert_false(mt_dtype_parse("f64", &d));
    assert_false(mt_dtype_parse("", &d));
    assert_false(mt_dtype_parse("F32", &d));
}

/* Parameters and KV bytes per token of the presets. */
static void test_presets(void **state) {
    (void)state;
    static const uint64_t parameters[] = { 124439808, 354823168, 774030080, 1557611200 };
    static const uint64_t kv_kib[] = { 72, 192, 360, 600 };
    for (int i = 0; i < 4; i++) {
        mt_config c;
        mt_error err;
        assert_true(mt_config_preset(PRESETS[i], &c));
        assert_int_equal(mt_config_check(&c, &err), MT_OK);
        assert_int_equal(mt_config_parameters(&c), parameters[i]);
        assert_int_equal(mt_config_kv_bytes_per_token(&c), kv_kib[i] * MT_KIB);
        assert_int_equal(c.width / c.heads, 64);
        assert_int_equal(c.dtype, MT_F32);
        assert_true(c.tied && c.epsilon == 1e-5f);
        c.dtype = MT_BF16;
        assert_int_equal(mt_config_kv_bytes_per_token(&c), kv_kib[i] * MT_KIB / 2);
        c.tied = false;
        assert_int_equal(mt_config_parameters(&c), parameters[i] + (uint64_t)c.vocab * c.width);
    }
}

static void test_unknown_preset(void **state) {
    (void)state;
    mt_config c;
    assert_false(mt_config_preset("gpt3", &c));
    assert_false(mt_config_preset("", &c));
    assert_false(mt_config_preset("gpt2-", &c));
}

static void test_table(void **state) {
    (void)state;
    mt_config c;
    mt_layer_weights layers[12];
    mt_weights w = { .layer = layers };
    assert_true(mt_config_preset("gpt2", &c));
    for (int tied = 0; tied < 2; tied++) {
        uint64_t sum = 0;
        c.tied = tied;
        assert_int_equal(mt_tensor_count(&c), 2 + 12 * 12 + (tied ? 2 : 3));
        for (uint32_t i = 0; i < mt_tensor_count(&c); i++) {
            mt_tensor t;
            mt_tensor_at(&c, i, &t);
            sum += t.rows * t.cols;
            assert_true(!t.vector || t.rows == 1);
            *mt_weights_slot(&w, &c, i) = (float *)(uintptr_t)(4 * (i + 1));
        }
        assert_int_equal(sum, mt_config_parameters(&c));
    }
    /* Each slot was written once: the address says which row it belongs to. */
    assert_int_equal((uintptr_t)w.wte, 4);
    assert_int_equal((uintptr_t)w.wpe, 8);
    for (uint32_t l = 0; l < 12; l++) {
        assert_int_equal((uintptr_t)layers[l].ln1_w, 4 * (3 + 12 * l));
        assert_int_equal((uintptr_t)layers[l].attn_w, 4 * (5 + 12 * l));
        assert_int_equal((uintptr_t)layers[l].fcp_b, 4 * (14 + 12 * l));
    }
    assert_int_equal((uintptr_t)w.lnf_w, 4 * 147);
    assert_int_equal((uintptr_t)w.lnf_b, 4 * 148);
    assert_int_equal((uintptr_t)w.head, 4 * 149);
}

static void test_table_rows(void **state) {
    (void)state;
    static const struct {
        uint32_t i;
        mt_tensor t;
    } rows[] = {
        { 0, { "wte.weight", 50257, 768, -1, false, false } },
        { 1, { "wpe.weight", 1024, 768, -1, false, false } },
        { 2, { "h.0.ln_1.weight", 1, 768, 0, false, true } },
        { 16, { "h.1.attn.c_attn.weight", 2304, 768, 1, true, false } },
        { 17, { "h.1.attn.c_attn.bias", 1, 2304, 1, false, true } },
        { 138, { "h.11.attn.c_proj.weight", 768, 768, 11, true, false } },
        { 142, { "h.11.mlp.c_fc.weight", 3072, 768, 11, true, false } },
        { 144, { "h.11.mlp.c_proj.weight", 768, 3072, 11, true, false } },
        { 147, { "ln_f.bias", 1, 768, -1, false, true } },
        { 148, { "lm_head.weight", 50257, 768, -1, false, false } },
    };
    mt_config c;
    assert_true(mt_config_preset("gpt2", &c));
    c.tied = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mt_tensor t;
        mt_tensor_at(&c, rows[i].i, &t);
        assert_string_equal(t.name, rows[i].t.name);
        assert_int_equal(t.rows, rows[i].t.rows);
        assert_int_equal(t.cols, rows[i].t.cols);
        assert_int_equal(t.layer, rows[i].t.layer);
        assert_int_equal(t.conv1d, rows[i].t.conv1d);
        assert_int_equal(t.vector, rows[i].t.vector);
    }
}

static void assert_check_fails(mt_config c, const char *part) {
    mt_error err = { 0 };
    assert_int_equal(mt_config_check(&c, &err), MT_BAD);
    assert_int_equal(err.status, MT_BAD);
    if (strstr(err.text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    assert_int_equal(mt_config_check(&c, NULL), MT_BAD);
}

#define CHANGED(field, value, part)                                                                \
    do {                                                                                           \
        mt_config changed_ = c;                                                                    \
        changed_.field = value;                                                                    \
        assert_check_fails(changed_, part);                                                        \
    } while (0)

static void test_check(void **state) {
    (void)state;
    mt_config c;
    assert_true(mt_config_preset("gpt2", &c));
    CHANGED(layers, 0, "layers is 0, expected an integer in [1, 1048576]");
    CHANGED(layers, (1 << 20) + 1, "layers");
    CHANGED(heads, 0, "heads");
    CHANGED(heads, 5, "width is 768, expected a multiple of the 5 heads");
    CHANGED(heads, 1536, "width");
    CHANGED(width, 0, "width");
    CHANGED(width, UINT32_MAX, "width");
    CHANGED(vocab, 0, "vocab");
    CHANGED(vocab, (1 << 24) + 1, "vocab is 16777217, expected an integer in [1, 16777216]");
    CHANGED(positions, 0, "positions");
    CHANGED(inner, 0, "inner");
    CHANGED(inner, (1 << 20) + 1, "inner");
    CHANGED(epsilon, 0, "epsilon");
    CHANGED(epsilon, -1, "epsilon");
    CHANGED(epsilon, NAN, "epsilon");
    CHANGED(epsilon, INFINITY, "epsilon");
}

/* The largest numbers alone are accepted; together they are too large. */
static void test_check_sum(void **state) {
    (void)state;
    const uint32_t most = 1 << 20;
    mt_error err;
    mt_config c = { .layers = 1,
                    .heads = 1,
                    .width = most,
                    .vocab = 1 << 24,
                    .positions = most,
                    .inner = most,
                    .epsilon = 1e-5f };
    assert_int_equal(mt_config_check(&c, &err), MT_OK);
    assert_int_equal(mt_config_parameters(&c), (1ull << 44) + (1ull << 40) + (1ull << 42) +
                                                   (2ull << 40) + (10ull << 20) + (2ull << 20) +
                                                   (1ull << 44));
    c.layers = most;
    assert_check_fails(c, "2^60");
}

/* ---- config.json ----------------------------------------------------------------------------- */

#define SMALL                                                                                      \
    "\"n_layer\": 2, \"n_head\": 3, \"n_embd\": 48, \"vocab_size\": 65, \"n_positions\": 11"

static mt_status read_text(const char *text, mt_config *c, mt_error *err) {
    return mt_config_read(temp_write("config.json", text, strlen(text)), c, err);
}

static mt_config good(const char *text) {
    mt_config c;
    mt_error err = { 0 };
    if (read_text(text, &c, &err) != MT_OK)
        fail_msg("%s: %s", text, err.text);
    return c;
}

static void bad_bytes(const char *text, size_t n, const char *part) {
    mt_config c = { .layers = 77 };
    mt_error err = { 0 };
    const char *path = temp_write("config.json", text, n);
    assert_int_equal(mt_config_read(path, &c, &err), MT_BAD);
    assert_int_equal(c.layers, 77); /* untouched */
    assert_null(strchr(err.text, '\n'));
    if (strncmp(err.text, path, strlen(path)) != 0 || strstr(err.text, part) == NULL)
        fail_msg("\"%s\" does not name the file and \"%s\"", err.text, part);
    assert_int_equal(mt_config_read(path, &c, NULL), MT_BAD);
}

static void bad(const char *text, const char *part) {
    bad_bytes(text, strlen(text), part);
}

static void test_json_defaults(void **state) {
    (void)state;
    mt_config c = good("{" SMALL "}");
    assert_int_equal(c.layers, 2);
    assert_int_equal(c.heads, 3);
    assert_int_equal(c.width, 48);
    assert_int_equal(c.vocab, 65);
    assert_int_equal(c.positions, 11);
    assert_int_equal(c.inner, 192);
    assert_true(c.epsilon == 1e-5f);
    assert_true(c.tied);
    assert_int_equal(c.dtype, MT_F32);
}

static void test_json_accepted(void **state) {
    (void)state;
    assert_int_equal(good("{" SMALL ", \"n_inner\": 100}").inner, 100);
    assert_int_equal(good("{" SMALL ", \"n_inner\": null}").inner, 192);
    assert_true(good("{" SMALL ", \"layer_norm_epsilon\": 1e-6}").epsilon == 1e-6f);
    assert_true(good("{" SMALL ", \"layer_norm_epsilon\": 1}").epsilon == 1.0f);
    assert_false(good("{" SMALL ", \"tie_word_embeddings\": false}").tied);
    assert_true(good("{" SMALL ", \"tie_word_embeddings\": true}").tied);
    good("{" SMALL ", \"activation_function\": \"gelu_new\", \"model_type\": \"gpt2\"}");
    good("{" SMALL ", \"scale_attn_by_inverse_layer_idx\": false, "
         "\"reorder_and_upcast_attn\": false, \"scale_attn_weights\": true}");
    good("\n {" SMALL
         ", \"n_ctx\": 7, \"architectures\": [\"X\"], \"deep\": {\"a\": [1, {}]}}\n\n");
    assert_int_equal(good("{" SMALL ", \"n_ctx\": 7}").positions, 11);
    assert_int_equal(good("{\"n_layer\": 1, \"n_head\": 1, \"n_embd\": 1, \"vocab_size\": 1, "
                          "\"n_ctx\": 7}")
                         .positions,
                     7);
}

/* SMALL with one key's value changed, or the key left out when the value is NULL. */
static const char *changed(const char *key, const char *value) {
    static const char *const pairs[][2] = { { "n_layer", "2" },
                                            { "n_head", "3" },
                                            { "n_embd", "48" },
                                            { "vocab_size", "65" },
                                            { "n_positions", "11" } };
    static char text[400];
    size_t used = 1;
    strcpy(text, "{");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *v = strcmp(pairs[i][0], key) == 0 ? value : pairs[i][1];
        if (v != NULL)
            used +=
                (size_t)sprintf(text + used, "%s\"%s\": %s", used > 1 ? ", " : "", pairs[i][0], v);
    }
    strcpy(text + used, "}");
    return text;
}

static void test_json_shape(void **state) {
    (void)state;
    static const char *const keys[] = { "n_layer", "n_head", "n_embd", "vocab_size",
                                        "n_positions" };
    static const char *const values[] = { NULL,        "null", "0",         "-1",
                                          "\"12\"",    "2.0",  "1e2",       "true",
                                          "[2]",       "{}",   "100000000", "9223372036854775807",
                                          "4294967297" };
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            bad(changed(keys[k], values[v]), keys[k]);
    bad(changed("n_layer", NULL), "n_layer is missing, expected an integer in [1, 1048576]");
    bad(changed("n_layer", "0"), "n_layer is 0, expected");
    bad(changed("n_layer", "\"12\""), "n_layer is \"12\", expected");
    bad(changed("vocab_size", "16777217"), "[1, 16777216]");
    bad(changed("n_head", "5"), "multiple of the 5 heads");
    bad(changed("n_layer", "9223372036854775808"), "byte 31: not the JSON expected");
}

static void test_json_refused(void **state) {
    (void)state;
    bad("{" SMALL ", \"n_inner\": 0}", "n_inner is 0");
    bad("{" SMALL ", \"n_inner\": \"big\"}", "n_inner is \"big\"");
    bad("{" SMALL ", \"layer_norm_epsilon\": \"1e-5\"}", "layer_norm_epsilon");
    bad("{" SMALL ", \"layer_norm_epsilon\": 0}", "epsilon is 0");
    bad("{" SMALL ", \"layer_norm_epsilon\": -1e-5}", "epsilon");
    bad("{" SMALL ", \"layer_norm_epsilon\": 1e300}", "epsilon");
    bad("{" SMALL ", \"layer_norm_epsilon\": 1e-300}", "epsilon");
    bad("{" SMALL ", \"tie_word_embeddings\": 1}", "tie_word_embeddings is 1, expected true or");
    bad("{" SMALL ", \"activation_function\": \"gelu\"}", "is \"gelu\", expected \"gelu_new\"");
    bad("{" SMALL ", \"activation_function\": 3}", "activation_function is 3");
    bad("{" SMALL ", \"model_type\": \"llama\"}", "model_type is \"llama\", expected \"gpt2\"");
    bad("{" SMALL ", \"model_type\": [\"gpt2\"]}", "model_type is an array");
    bad("{" SMALL ", \"scale_attn_by_inverse_layer_idx\": true}", "is true, expected false");
    bad("{" SMALL ", \"reorder_and_upcast_attn\": true}", "reorder_and_upcast_attn is true");
    bad("{" SMALL ", \"reorder_and_upcast_attn\": \"no\"}", "reorder_and_upcast_attn is \"no\"");
    bad("{" SMALL ", \"scale_attn_weights\": false}", "scale_attn_weights is false");
}

static void test_json_syntax(void **state) {
    (void)state;
    bad("", "byte 0: empty");
    bad("[" SMALL "]", "not the JSON expected");
    bad("[1, 2]", "an array, expected a JSON object");
    bad("12", "not the JSON expected");
    bad("{" SMALL, "not the JSON expected");
    bad("{" SMALL "} x", "not the JSON expected");
    bad("{" SMALL ", \"n_layer\": 3}", "duplicate");
    bad("{" SMALL ", \"model_type\": \"gpt2\\u0000\"}", "u0000");
    bad("{" SMALL ", \"a\\u0000\": 1}", "u0000");
    bad("{" SMALL ", \"a\": \"\xff\"}", "not the JSON expected");
    bad("{" SMALL ", \"a\": \"\n\"}", "not the JSON expected");
    bad_bytes("{\"n_layer\": 1, \0}", 17, "not the JSON expected");
}

static void test_json_deep(void **state) {
    (void)state;
    static char deep[100000];
    memset(deep, '[', sizeof deep);
    bad_bytes(deep, sizeof deep, "not the JSON expected");
    memcpy(deep, "{\"a\":", 5);
    bad_bytes(deep, sizeof deep, "not the JSON expected");
}

static void test_json_not_a_file(void **state) {
    (void)state;
    mt_config c;
    mt_error err;
    char path[300] = "";
    assert_int_equal(mt_config_read(temp_path("absent.json"), &c, &err), MT_BAD);
    assert_non_null(strstr(err.text, "absent.json: cannot be opened: No such file"));
    assert_int_equal(mt_config_read(temp_folder, &c, &err), MT_BAD);
    assert_int_equal(mt_config_read("/dev/zero", &c, &err), MT_BAD);
    assert_non_null(strstr(err.text, "not a file"));
    const char *large = temp_write("large.json", "{}", 2);
    assert_int_equal(truncate(large, (off_t)1 << 33), 0);
    assert_int_equal(mt_config_read(large, &c, &err), MT_BAD);
    assert_non_null(strstr(err.text, "expected a config.json of at most"));
    /* Of a long path the end is shown, and no line is broken by it. */
    while (strlen(path) < 250)
        strcat(path, "/long\nname");
    assert_int_equal(mt_config_read(path, &c, &err), MT_BAD);
    assert_null(strchr(err.text, '\n'));
    assert_non_null(strstr(err.text, "long\\x0aname: cannot be opened"));
}

/* Any single byte of a config.json may be wrong. */
static void test_json_fuzz(void **state) {
    (void)state;
    char text[] = "{" SMALL ", \"model_type\": \"gpt2\", \"layer_norm_epsilon\": 1e-5}";
    static const char others[] = "\0\n\"\\{}[]:,0-e\x7f\xc3";
    const size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof others + 7; k++) {
            mt_config c;
            const char was = text[i];
            text[i] = k < 8 ? (char)(was ^ 1 << k) : others[k - 8];
            mt_status status = mt_config_read(temp_write("config.json", text, n), &c, NULL);
            assert_true(status == MT_OK || status == MT_BAD);
            text[i] = was;
        }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(
            mt_config_read(temp_write("config.json", text, i), &(mt_config){ 0 }, NULL), MT_BAD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes),         cmocka_unit_test(test_presets),
        cmocka_unit_test(test_unknown_preset), cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_rows),     cmocka_unit_test(test_check),
        cmocka_unit_test(test_check_sum),      cmocka_unit_test(test_json_defaults),
        cmocka_unit_test(test_json_accepted),  cmocka_unit_test(test_json_shape),
        cmocka_unit_test(test_json_refused),   cmocka_unit_test(test_json_syntax),
        cmocka_unit_test(test_json_deep),      cmocka_unit_test(test_json_not_a_file),
        cmocka_unit_test(test_json_fuzz),
    };
    return cmocka_run_group_tests_name("config", tests, temp_setup, temp_teardown);
}
