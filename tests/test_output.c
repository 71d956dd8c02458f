/* test_output.c - files that appear whole or not at all, and what is read back from them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/input.h"
#include "base/output.h"
#include "tests/temp_files.h"

static const char *const NAMES[] = { "plain.txt", "packed.gz", "packed.zst" };

/* How many entries the folder has. */
static int files(void) {
    int n = 0;
    DIR *folder = opendir(temp_folder);
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n - 2;
}

/* Writes data in pieces of the given size and commits. */
static mt_status store(const char *path, const char *data, size_t n, size_t piece, mt_error *err) {
    mt_output *o;
    mt_status status = mt_output_open(&o, path, err);
    if (status != MT_OK)
        return status;
    for (size_t i = 0; i < n; i += piece)
        mt_output_write(o, data + i, n - i < piece ? n - i : piece);
    return mt_output_commit(o, err);
}

static void assert_holds(const char *path, const char *data, size_t n) {
    char *got;
    size_t length;
    mt_error err = { MT_OK, "" };
    if (mt_input_read(path, SIZE_MAX, &got, &length, &err) != MT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(length, n);
    assert_memory_equal(got, data, n);
    assert_int_equal(got[length], 0);
    free(got);
}

static void assert_refused(const char *path, mt_status status, const char *words) {
    char *got;
    size_t length;
    mt_error err = { MT_OK, "" };
    assert_int_equal(mt_input_read(path, 1 << 20, &got, &length, &err), status);
    assert_int_equal(err.status, status);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, words));
    assert_null(got);
    assert_int_equal(length, 0);
}

/* Bytes that do not pack well, the same every time. */
static char *noise(size_t n) {
    char *data = malloc(n + 1);
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = (char)(x >> 24);
    }
    return data;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void test_round_trip(void **state) {
    (void)state;
    static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, 131072, 1000000 };
    char *data = noise(1000000);
    memset(data + 300000, 'a', 300000);
    for (int i = 0; i < 3; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            const char *path = temp_path(NAMES[i]);
            mt_error err;
            assert_int_equal(store(path, data, sizes[j], j % 2 ? 7 : 100000, &err), MT_OK);
            assert_holds(path, data, sizes[j]);
        }
        unlink(temp_path(NAMES[i]));
    }
    free(data);
    assert_int_equal(files(), 0);
}

/* The name decides about writing, the first bytes about reading. */
static void test_packed_for_real(void **state) {
    (void)state;
    static const unsigned char first[3][4] = { "aaa", { 0x1f, 0x8b }, { 0x28, 0xb5, 0x2f, 0xfd } };
    static const size_t shown[] = { 4, 2, 4 };
    char data[1000], found[4] = { 0 };
    memset(data, 'a', sizeof data);
    for (int i = 0; i < 3; i++) {
        mt_error err;
        assert_int_equal(store(temp_path(NAMES[i]), data, 3, 3, &err), MT_OK);
        FILE *f = fopen(temp_path(NAMES[i]), "rb");
        assert_true(fread(found, 1, 4, f) >= 3);
        fclose(f);
        assert_memory_equal(found, first[i], shown[i]);
        assert_int_equal(rename(temp_path(NAMES[i]), temp_path("other.name")), 0);
        assert_holds(temp_path("other.name"), data, 3);
        unlink(temp_path("other.name"));
    }
}

static void test_equal_files(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        mt_error err;
        char data[2][4096];
        size_t n[2];
        for (int j = 0; j < 2; j++) {
            assert_int_equal(store(temp_path(NAMES[i]), "the same", 8, j + 1, &err), MT_OK);
            FILE *f = fopen(temp_path(NAMES[i]), "rb");
            n[j] = fread(data[j], 1, sizeof data[j], f);
            fclose(f);
        }
        assert_int_equal(n[0], n[1]);
        assert_memory_equal(data[0], data[1], n[0]);
        unlink(temp_path(NAMES[i]));
    }
}

static void test_appears_at_commit(void **state) {
    (void)state;
    mt_output *o;
    mt_error err;
    struct stat status;
    const char *path = temp_write("here", "old", 3);
    assert_int_equal(mt_output_open(&o, path, &err), MT_OK);
    mt_output_write(o, "new", 3);
    assert_int_equal(files(), 2);
    assert_holds(path, "old", 3);
    mode_t mask = umask(027);
    umask(mask);
    assert_int_equal(mt_output_commit(o, &err), MT_OK);
    assert_holds(path, "new", 3);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0666 & ~mask);
    assert_int_equal(files(), 1);
    unlink(path);
}

static void test_abandoned(void **state) {
    (void)state;
    mt_output *o;
    mt_error err;
    char *data = noise(200000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mt_output_open(&o, temp_path(NAMES[i]), &err), MT_OK);
        mt_output_write(o, data, 200000);
        mt_output_abandon(o);
        assert_int_equal(files(), 0);
    }
    mt_output_abandon(NULL);
    free(data);
}

/* Two outputs of one name, open at once, do not meet. */
static void test_two_at_once(void **state) {
    (void)state;
    mt_output *a, *b;
    mt_error err;
    const char *path = temp_path("both");
    assert_int_equal(mt_output_open(&a, path, &err), MT_OK);
    assert_int_equal(mt_output_open(&b, path, &err), MT_OK);
    mt_output_write(a, "a", 1);
    mt_output_write(b, "b", 1);
    assert_int_equal(mt_output_commit(a, &err), MT_OK);
    assert_holds(path, "a", 1);
    assert_int_equal(mt_output_commit(b, &err), MT_OK);
    assert_holds(path, "b", 1);
    unlink(path);
    assert_int_equal(files(), 0);
}

/* What a commit asks of the system, in order; the program calls these in place of the library's. */
static char calls[8];
static mt_status disk; /* MT_FAILED: it is broken */

static void note(char call) {
    size_t n = strlen(calls);
    if (n + 1 < sizeof calls)
        calls[n] = call;
}

int fsync(int fd) {
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    note(S_ISDIR(status.st_mode) ? 'd' : 'f');
    errno = EIO;
    return disk == MT_OK ? 0 : -1;
}

int rename(const char *from, const char *to) {
    note('r');
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* After a power cut a name has its old file or the whole new one: the data are on the disk before
 * the name, and the name before the commit says so. */
static void test_on_the_disk(void **state) {
    (void)state;
    mt_error err;
    const char *path = temp_path("kept");
    memset(calls, 0, sizeof calls);
    assert_int_equal(store(path, "old", 3, 3, &err), MT_OK);
    assert_string_equal(calls, "frd");
    disk = MT_FAILED;
    assert_int_equal(store(path, "new", 3, 3, &err), MT_FAILED);
    disk = MT_OK;
    assert_non_null(strstr(err.text, "kept: cannot be written: Input/output error"));
    assert_holds(path, "old", 3);
    assert_int_equal(files(), 1);
    unlink(path);
    memset(calls, 0, sizeof calls);
    assert_int_equal(store("/dev/null", "x", 1, 1, &err), MT_OK);
    assert_string_equal(calls, "");
}

/* ---- writing that fails ---------------------------------------------------------------------- */

static void test_full_device(void **state) {
    (void)state;
    mt_error err;
    assert_int_equal(store("/dev/full", "x", 1, 1, &err), MT_FAILED);
    assert_non_null(strstr(err.text, "/dev/full"));
    assert_non_null(strstr(err.text, "No space left"));
    for (int i = 0; i < 3; i++) {
        const char *path = temp_path(NAMES[i]);
        char *data = noise(300000);
        assert_int_equal(symlink("/dev/full", path), 0);
        assert_int_equal(store(path, data, 300000, 1000, &err), MT_FAILED);
        assert_non_null(strstr(err.text, "No space left"));
        unlink(path);
        free(data);
    }
}

/* A disk that is full after 100,000 bytes, played by the limit on a file's size. */
static void test_full_disk(void **state) {
    (void)state;
    struct rlimit before, limit;
    char *data = noise(300000);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (int i = 0; i < 3; i++) {
        mt_error err;
        const char *path = temp_write(NAMES[i], "old", 3);
        limit = (struct rlimit){ 100000, before.rlim_max };
        setrlimit(RLIMIT_FSIZE, &limit);
        mt_status status = store(path, data, 300000, 10, &err);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_int_equal(status, MT_FAILED);
        assert_non_null(strstr(err.text, path));
        assert_holds(path, "old", 3);
        unlink(path);
        assert_int_equal(files(), 0);
    }
    free(data);
}

static void test_no_place(void **state) {
    (void)state;
    mt_error err;
    mt_output *o;
    assert_int_equal(mt_output_open(&o, temp_path("none/file"), &err), MT_FAILED);
    assert_non_null(strstr(err.text, "none/file"));
    assert_null(o);
    assert_int_equal(mt_output_open(&o, temp_folder, &err), MT_FAILED);
    assert_non_null(strstr(err.text, temp_folder));
    assert_int_equal(mt_output_open(&o, "", &err), MT_FAILED);
    assert_int_equal(mt_output_open(&o, "/dev/fd/9999", &err), MT_FAILED);
    assert_int_equal(files(), 0);
}

/* ---- what is no plain file ------------------------------------------------------------------- */

static void test_straight(void **state) {
    (void)state;
    mt_error err;
    char got[8] = "";
    const char *path = temp_path("fifo");
    assert_int_equal(store("/dev/null", "x", 1, 1, &err), MT_OK);
    assert_int_equal(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR);
    assert_int_equal(store(path, "text", 4, 4, &err), MT_OK);
    assert_int_equal(read(fd, got, 4), 4);
    assert_string_equal(got, "text");
    close(fd);
    unlink(path);
    assert_int_equal(files(), 0);
}

/* What a link names is kept until the commit, and the link itself for good. */
static void test_link(void **state) {
    (void)state;
    mt_error err;
    mt_output *o;
    struct stat status;
    const char *path = temp_path("link"), *second = temp_path("second"), *to = temp_path("target");
    assert_int_equal(symlink("second", path), 0); /* beside the link */
    assert_int_equal(symlink(to, second), 0);
    for (int old = 0; old < 2; old++) { /* a file that is not there yet, one that is */
        assert_int_equal(mt_output_open(&o, path, &err), MT_OK);
        mt_output_write(o, "x", 1);
        mt_output_abandon(o);
        assert_int_equal(files(), 2 + old);
        if (old)
            assert_holds(to, "new", 3);
        assert_int_equal(store(path, old ? "newer" : "new", old ? 5 : 3, 5, &err), MT_OK);
        assert_holds(to, old ? "newer" : "new", old ? 5 : 3);
        assert_int_equal(lstat(path, &status), 0);
        assert_true(S_ISLNK(status.st_mode));
        assert_int_equal(lstat(second, &status), 0);
        assert_true(S_ISLNK(status.st_mode));
    }
    unlink(to);
    unlink(second);
    assert_int_equal(symlink("link", second), 0); /* in a circle */
    assert_int_equal(mt_output_open(&o, path, &err), MT_FAILED);
    assert_non_null(strstr(err.text, "symbolic links"));
    unlink(second);
    unlink(path);
    assert_int_equal(files(), 0);
}

/* /dev/fd/N goes on where the open file is, and leaves it open. */
static void test_standing_file(void **state) {
    (void)state;
    mt_error err;
    char name[32];
    const char *path = temp_path("open");
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "one ", 4), 4);
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    assert_int_equal(store(name, "two ", 4, 4, &err), MT_OK);
    assert_int_equal(write(fd, "three", 5), 5);
    close(fd);
    assert_holds(path, "one two three", 13);
    unlink(path);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void test_missing(void **state) {
    (void)state;
    assert_refused(temp_path("nothing"), MT_BAD, "No such file");
    assert_refused(temp_folder, MT_BAD, "directory");
}

static void test_limit(void **state) {
    (void)state;
    char *data = noise(100000), *got;
    for (int i = 0; i < 3; i++) {
        mt_error err;
        size_t n;
        const char *path = temp_path(NAMES[i]);
        assert_int_equal(store(path, data, 100000, 100000, &err), MT_OK);
        assert_int_equal(mt_input_read(path, 100000, &got, &n, &err), MT_OK);
        free(got);
        assert_int_equal(mt_input_read(path, 99999, &got, &n, &err), MT_BAD);
        assert_non_null(strstr(err.text, "99999"));
        assert_null(got);
        unlink(path);
    }
    free(data);
}

/* The raw bytes of a compressed file of n bytes of text; free() them. */
static char *packed(int which, const char *data, size_t n, size_t *length) {
    mt_error err;
    char *raw = malloc(n + 1000);
    assert_int_equal(store(temp_path(NAMES[which]), data, n, n, &err), MT_OK);
    FILE *f = fopen(temp_path(NAMES[which]), "rb");
    *length = fread(raw, 1, n + 1000, f);
    fclose(f);
    unlink(temp_path(NAMES[which]));
    return raw;
}

/* Cut anywhere behind its first bytes, a compressed file is refused. */
static void test_cut_short(void **state) {
    (void)state;
    char *data = noise(300);
    for (int i = 1; i < 3; i++) {
        size_t length;
        char *raw = packed(i, data, 300, &length);
        for (size_t n = 4; n < length; n++)
            assert_refused(temp_write("cut", raw, n), MT_BAD, "cut short");
        assert_holds(temp_write("cut", raw, length), data, 300);
        free(raw);
    }
    unlink(temp_path("cut"));
    free(data);
}

/* With any byte behind the first ones changed it is refused, or the change meant nothing. */
static void test_corrupt(void **state) {
    (void)state;
    char *data = noise(300);
    for (int i = 1; i < 3; i++) {
        size_t length;
        int refused = 0;
        char *raw = packed(i, data, 300, &length), *got;
        for (size_t n = 4; n < length; n++) {
            mt_error err;
            size_t found;
            raw[n] ^= 0x10;
            mt_status status =
                mt_input_read(temp_write("bad", raw, length), 1 << 20, &got, &found, &err);
            raw[n] ^= 0x10;
            refused += status == MT_BAD;
            assert_true(status == MT_BAD || (found == 300 && memcmp(got, data, 300) == 0));
            free(got);
        }
        assert_true(refused >= 300);
        free(raw);
    }
    unlink(temp_path("bad"));
    free(data);
}

/* Compressed files may follow one another; nothing else may follow them. */
static void test_concatenated(void **state) {
    (void)state;
    for (int i = 1; i < 3; i++) {
        size_t length;
        char *raw = packed(i, "half", 4, &length);
        raw = realloc(raw, 2 * length + 8);
        memcpy(raw + length, raw, length);
        assert_holds(temp_write("two", raw, 2 * length), "halfhalf", 8);
        memcpy(raw + length, "garbage", 8);
        assert_refused(temp_write("two", raw, length + 7), MT_BAD, "corrupt");
        free(raw);
    }
    unlink(temp_path("two"));
}

/* Many bytes of text in few packed ones, read in pieces of one byte. */
static void test_small_pieces(void **state) {
    (void)state;
    char *data = malloc(200000);
    memset(data, 'z', 200000);
    for (int i = 0; i < 3; i++) {
        mt_input *in;
        mt_error err;
        size_t n, all = 0;
        char c;
        assert_int_equal(store(temp_path(NAMES[i]), data, 200000, 200000, &err), MT_OK);
        assert_int_equal(mt_input_open(&in, temp_path(NAMES[i]), MT_INPUT_ANY, &err), MT_OK);
        while (mt_input_some(in, &c, 1, &n, &err) == MT_OK && n == 1)
            all += c == 'z';
        assert_int_equal(n, 0);
        assert_int_equal(mt_input_some(in, &c, 1, &n, &err), MT_OK);
        assert_int_equal(n, 0);
        assert_int_equal(all, 200000);
        mt_input_close(in);
        unlink(temp_path(NAMES[i]));
    }
    mt_input_close(NULL);
    free(data);
}

/* A program that ends at once leaves no temporary files; plain names and other files stay. */
static void test_remove_all(void **state) {
    (void)state;
    mt_output *o[20];
    mt_error err;
    static const char *const name[20] = { "a0", "a1", "a2", "a3", "a4", "a5", "a6",
                                          "a7", "a8", "a9", "b0", "b1", "b2", "b3",
                                          "b4", "b5", "b6", "b7", "b8", "b9" };
    unlink(temp_path("kept"));
    assert_int_equal(store(temp_path("kept"), "abc", 3, 3, &err), MT_OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(mt_output_open(&o[i], temp_path(name[i]), &err), MT_OK);
    for (int i = 0; i < 20; i += 2) /* every other one ends in a good way, and makes room */
        assert_int_equal(mt_output_commit(o[i], &err), MT_OK);
    mt_output_remove_all();
    for (int i = 1; i < 16; i += 2) {
        assert_int_equal(mt_output_commit(o[i], &err), MT_FAILED);
        assert_int_equal(access(temp_path(name[i]), F_OK), -1);
    }
    for (int i = 17; i < 20; i += 2) /* those there was no room for in the list */
        mt_output_abandon(o[i]);
    for (int i = 0; i < 20; i += 2)
        assert_int_equal(unlink(temp_path(name[i])), 0);
    assert_holds(temp_path("kept"), "abc", 3);
    unlink(temp_path("kept"));
    mt_output_remove_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_packed_for_real),
        cmocka_unit_test(test_equal_files),  cmocka_unit_test(test_appears_at_commit),
        cmocka_unit_test(test_abandoned),    cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_on_the_disk),  cmocka_unit_test(test_full_device),
        cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_no_place),
        cmocka_unit_test(test_straight),     cmocka_unit_test(test_standing_file),
        cmocka_unit_test(test_missing),      cmocka_unit_test(test_limit),
        cmocka_unit_test(test_cut_short),    cmocka_unit_test(test_corrupt),
        cmocka_unit_test(test_concatenated), cmocka_unit_test(test_small_pieces),
        cmocka_unit_test(test_remove_all),   cmocka_unit_test(test_link),
    };
    return cmocka_run_group_tests_name("output", tests, temp_setup, temp_teardown);
}
