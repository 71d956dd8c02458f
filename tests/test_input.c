/* test_input.c - what is read: looked at, line by line, out of pipes, up to a limit,
 * interrupted. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/input.h"
#include "base/interrupt.h"
#include "base/output.h"
#include "tests/temp_files.h"

static const char *const NAMES[] = { "plain", "packed.gz", "packed.zst" };

/* Writes a file, packed as its name says, and returns its path. */
static const char *store(const char *name, const char *data, size_t n) {
    mt_output *o;
    const char *path = temp_path(name);
    assert_int_equal(mt_output_open(&o, path, NULL), MT_OK);
    mt_output_write(o, data, n);
    assert_int_equal(mt_output_commit(o, NULL), MT_OK);
    return path;
}

/* Lines of all lengths from 0 to 400, again and again; some are longer than any buffer at first. */
static char *many_lines(size_t *n) {
    static const size_t LONG = 300000;
    char *text = malloc(1 << 21), *at = text;
    for (unsigned i = 0; i < 4000; i++) {
        size_t length = i % 1300 == 1299 ? LONG : i % 401;
        memset(at, 'a' + i % 26, length);
        at[length] = '\n';
        at += length + 1;
    }
    *n = (size_t)(at - text);
    return text;
}

/* ---- looking ahead --------------------------------------------------------------------------- */

static void test_peek(void **state) {
    (void)state;
    size_t n, got;
    char *text = many_lines(&n), *read = malloc(n);
    for (int i = 0; i < 3; i++) {
        mt_input *in;
        const char *data;
        assert_int_equal(mt_input_open(&in, store(NAMES[i], text, n), MT_INPUT_ANY, NULL), MT_OK);
        static const size_t wants[] = { 0, 1, 4, 1000, MT_INPUT_PEEK, 2 };
        for (size_t k = 0; k < 6; k++) {
            assert_int_equal(mt_input_peek(in, wants[k], &data, &got, NULL), MT_OK);
            assert_int_equal(got, wants[k]);
            assert_memory_equal(data, text, got);
        }
        size_t at = 0;
        for (size_t k = 0; k == 0 || got > 0; k++) { /* nothing was used up, now and later */
            assert_int_equal(mt_input_some(in, read + at, k % 2 ? 7 : 70000, &got, NULL), MT_OK);
            at += got;
            size_t there;
            assert_int_equal(mt_input_peek(in, 3, &data, &there, NULL), MT_OK);
            assert_int_equal(there, n - at < 3 ? n - at : 3);
            assert_memory_equal(data, text + at, there);
        }
        assert_int_equal(at, n);
        assert_memory_equal(read, text, n);
        mt_input_close(in);
    }
    free(text);
    free(read);
}

static void test_peek_at_little(void **state) {
    (void)state;
    for (size_t n = 0; n < 6; n++) {
        mt_input *in;
        const char *data;
        size_t got;
        assert_int_equal(mt_input_open(&in, temp_write("few", "\x1f\x8c six", n), 10, NULL), MT_OK);
        assert_int_equal(mt_input_peek(in, 100, &data, &got, NULL), MT_OK);
        assert_int_equal(got, n);
        assert_memory_equal(data, "\x1f\x8c six", n);
        mt_input_close(in);
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void test_lines(void **state) {
    (void)state;
    size_t n;
    char *text = many_lines(&n);
    for (int i = 0; i < 3; i++) {
        mt_input *in;
        mt_line line;
        const char *at = text;
        uint64_t number = 0;
        assert_int_equal(mt_input_open(&in, store(NAMES[i], text, n), MT_INPUT_ANY, NULL), MT_OK);
        while (mt_input_line(in, 300000, &line, NULL) == MT_OK && line.text != NULL) {
            assert_true(line.ended);
            assert_int_equal(line.number, ++number);
            assert_int_equal(line.length, strlen(line.text));
            assert_memory_equal(line.text, at, line.length);
            assert_int_equal(at[line.length], '\n');
            memset(line.text, 'x', line.length); /* the caller's */
            at += line.length + 1;
        }
        assert_null(line.text);
        assert_int_equal(number, 4000);
        assert_ptr_equal(at, text + n);
        assert_int_equal(mt_input_line(in, 10, &line, NULL), MT_OK);
        assert_null(line.text);
        mt_input_close(in);
    }
    free(text);
}

/* Opens a file of this text and reads its first line. */
static mt_status first_line(const char *text, size_t n, size_t most, mt_input **in, mt_line *line,
                            mt_error *err) {
    assert_int_equal(mt_input_open(in, temp_write("lines", text, n), MT_INPUT_ANY, err), MT_OK);
    return mt_input_line(*in, most, line, err);
}

static void test_line_ends(void **state) {
    (void)state;
    mt_input *in;
    mt_line line;
    mt_error err;
    assert_int_equal(first_line("", 0, 9, &in, &line, &err), MT_OK);
    assert_null(line.text);
    mt_input_close(in);
    assert_int_equal(first_line("\nlast", 5, 9, &in, &line, &err), MT_OK);
    assert_string_equal(line.text, "");
    assert_true(line.ended);
    assert_int_equal(mt_input_line(in, 9, &line, &err), MT_OK);
    assert_string_equal(line.text, "last");
    assert_false(line.ended);
    assert_int_equal(line.number, 2);
    mt_input_close(in);
}

static void test_line_refused(void **state) {
    (void)state;
    mt_input *in;
    mt_line line;
    mt_error err;
    assert_int_equal(first_line("ten bytes!\n", 11, 10, &in, &line, &err), MT_OK);
    mt_input_close(in);
    assert_int_equal(first_line("ten bytes!\n", 11, 9, &in, &line, &err), MT_BAD);
    assert_non_null(strstr(err.text, ":1: longer than 9 bytes"));
    mt_input_close(in);
    assert_int_equal(first_line("ten bytes!", 10, 9, &in, &line, &err), MT_BAD);
    mt_input_close(in);
    assert_int_equal(first_line("a\0b\n", 4, 9, &in, &line, &err), MT_BAD);
    assert_non_null(strstr(err.text, ":1: a zero byte"));
    mt_input_close(in);
}

/* A line without end takes no more memory than a line may have. */
static void test_endless_line(void **state) {
    (void)state;
    mt_input *in;
    mt_line line;
    mt_error err;
    assert_int_equal(mt_input_open(&in, "/dev/zero", MT_INPUT_ANY, &err), MT_OK);
    assert_int_equal(mt_input_line(in, 1 << 20, &line, &err), MT_BAD);
    mt_input_close(in);
}

/* ---- a limit --------------------------------------------------------------------------------- */

/* The limit is on what comes out of the decoder, and reading stops there. */
static void test_limit(void **state) {
    (void)state;
    enum { BYTES = 50000000 };
    char *text = calloc(BYTES, 1), *data;
    size_t n;
    mt_error err;
    for (int i = 1; i < 3; i++) {
        const char *path = store(NAMES[i], text, BYTES);
        assert_int_equal(mt_input_read(path, BYTES - 1, &data, &n, &err), MT_BAD);
        assert_non_null(strstr(err.text, "more than 49999999 bytes"));
        assert_int_equal(mt_input_read(path, BYTES, &data, &n, &err), MT_OK);
        assert_int_equal(n, BYTES);
        free(data);
        assert_int_equal(mt_input_read(path, 0, &data, &n, &err), MT_BAD);
    }
    assert_int_equal(mt_input_read("/dev/zero", 1 << 20, &data, &n, &err), MT_BAD);
    assert_int_equal(mt_input_read("/dev/null", 0, &data, &n, &err), MT_OK);
    assert_int_equal(n, 0);
    free(data);
    free(text);
}

/* ---- pipes ----------------------------------------------------------------------------------- */

typedef struct feed {
    int fd;
    const char *path; /* opened for writing when fd is -1 */
    const char *data;
    size_t n, piece;
} feed;

static void *write_feed(void *argument) {
    const feed *f = argument;
    int fd = f->fd >= 0 ? f->fd : open(f->path, O_WRONLY);
    for (size_t at = 0; at < f->n;) {
        size_t rest = f->n - at;
        ssize_t done = write(fd, f->data + at, rest < f->piece ? rest : f->piece);
        if (done <= 0)
            break;
        at += (size_t)done;
    }
    close(fd);
    return NULL;
}

static void assert_reads(const char *path, const char *text, size_t n) {
    mt_input *in;
    const char *data;
    size_t got, at = 0;
    char *read = malloc(n + 1);
    assert_int_equal(mt_input_open(&in, path, MT_INPUT_ANY, NULL), MT_OK);
    assert_int_equal(mt_input_peek(in, 4, &data, &got, NULL), MT_OK);
    assert_memory_equal(data, text, 4);
    while (mt_input_some(in, read + at, n + 1 - at, &got, NULL) == MT_OK && got > 0)
        at += got;
    assert_int_equal(at, n);
    assert_memory_equal(read, text, n);
    mt_input_close(in);
    free(read);
}

/* Standard input by its three names and an open file by its number: pipes, read as files are. */
static void test_pipe(void **state) {
    (void)state;
    static const char *const names[] = { "-", "/dev/stdin", "/dev/fd/0" };
    size_t n;
    char *text = many_lines(&n);
    int was = dup(STDIN_FILENO);
    for (int i = 0; i < 3; i++) {
        int ends[2];
        pthread_t thread;
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
        close(ends[0]);
        feed f = { ends[1], NULL, text, n, i == 0 ? 1 << 20 : 1000 };
        assert_int_equal(pthread_create(&thread, NULL, write_feed, &f), 0);
        assert_reads(names[i], text, n);
        pthread_join(thread, NULL);
    }
    dup2(was, STDIN_FILENO);
    close(was);
    free(text);
}

static void test_stdin_name(void **state) {
    (void)state;
    mt_input *in;
    mt_error err;
    int was = dup(STDIN_FILENO), fd = open(temp_write("bad", "\x1f\x8b\x08", 3), O_RDONLY);
    dup2(fd, STDIN_FILENO);
    close(fd);
    size_t n;
    char byte;
    assert_int_equal(mt_input_open(&in, "-", MT_INPUT_ANY, &err), MT_OK);
    assert_string_equal(mt_input_name(in), "standard input");
    assert_int_equal(mt_input_some(in, &byte, 1, &n, &err), MT_BAD);
    assert_string_equal(err.text, "standard input: the compressed data are cut short");
    mt_input_close(in);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* still open */
    dup2(was, STDIN_FILENO);
    close(was);
}

static void test_fifo(void **state) {
    (void)state;
    size_t n;
    char *text = many_lines(&n);
    const char *path = temp_path("fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        feed f = { -1, path, text, n, 5000 };
        assert_int_equal(pthread_create(&thread, NULL, write_feed, &f), 0);
        if (i == 1)
            usleep(50000); /* the writer is there first */
        assert_reads(path, text, n);
        pthread_join(thread, NULL);
    }
    unlink(path);
    free(text);
}

/* ---- interrupts ------------------------------------------------------------------------------ */

static atomic_bool asked;

static bool was_asked(void) {
    return asked;
}

static void on_alarm(int signal) {
    (void)signal;
    asked = true;
}

/* Asks the program to stop in a moment, by a signal after which the system's calls go on. */
static void ask_soon(void) {
    struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    sigaction(SIGALRM, &action, NULL);
    asked = false;
    mt_interrupt_by(was_asked);
    ualarm(20000, 0);
}

static void test_interrupted_reads(void **state) {
    (void)state;
    mt_input *in;
    mt_error err;
    char *data;
    size_t n;
    const char *path = temp_path("fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    ask_soon(); /* nobody ever writes */
    assert_int_equal(mt_input_read(path, MT_INPUT_ANY, &data, &n, &err), MT_INTERRUPTED);
    assert_int_equal(err.status, MT_INTERRUPTED);
    assert_null(data);
    int writer = open(path, O_RDWR); /* somebody opens it, writes a little and stops */
    assert_int_equal(write(writer, "half a line", 11), 11);
    ask_soon();
    assert_int_equal(mt_input_open(&in, path, MT_INPUT_ANY, &err), MT_OK);
    mt_line line;
    assert_int_equal(mt_input_line(in, 100, &line, &err), MT_INTERRUPTED);
    mt_input_close(in);
    ask_soon(); /* data without end: each piece is a chance */
    assert_int_equal(mt_input_open(&in, "/dev/zero", MT_INPUT_ANY, &err), MT_OK);
    mt_status status;
    char piece[100];
    while ((status = mt_input_some(in, piece, sizeof piece, &n, &err)) == MT_OK)
        assert_true(n > 0);
    assert_int_equal(status, MT_INTERRUPTED);
    mt_input_close(in);
    close(writer);
    mt_interrupt_by(NULL);
    unlink(path);
}

static void test_interrupted_writes(void **state) {
    (void)state;
    mt_output *o;
    mt_error err;
    const char *path = temp_path("fifo");
    char *data = calloc(1, 1 << 20);
    assert_int_equal(mkfifo(path, 0600), 0);
    ask_soon(); /* nobody ever reads */
    assert_int_equal(mt_output_open(&o, path, &err), MT_INTERRUPTED);
    assert_null(o);
    int reader = open(path, O_RDONLY | O_NONBLOCK); /* somebody opens it and reads nothing */
    ask_soon();
    assert_int_equal(mt_output_open(&o, path, &err), MT_OK);
    mt_output_write(o, data, 1 << 20);
    assert_int_equal(mt_output_commit(o, &err), MT_INTERRUPTED);
    close(reader);
    mt_interrupt_by(NULL);
    unlink(path);
    free(data);
}

/* What was written before the interrupt reaches one who reads, if slowly. */
static void *read_slowly(void *argument) {
    char piece[4096];
    size_t *n = argument;
    int fd = open(temp_path("slow"), O_RDONLY);
    for (ssize_t got; (got = read(fd, piece, sizeof piece)) > 0; *n += (size_t)got)
        usleep(500);
    close(fd);
    return NULL;
}

static void test_interrupted_but_read(void **state) {
    (void)state;
    enum { BYTES = 500000 };
    mt_output *o;
    mt_error err;
    size_t n = 0;
    pthread_t thread;
    char *data = calloc(1, BYTES);
    assert_int_equal(mkfifo(temp_path("slow"), 0600), 0);
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &n), 0);
    assert_int_equal(mt_output_open(&o, temp_path("slow"), &err), MT_OK);
    ask_soon();
    mt_output_write(o, data, BYTES);
    assert_int_equal(mt_output_commit(o, &err), MT_OK);
    pthread_join(thread, NULL);
    assert_true(asked);
    assert_int_equal(n, BYTES);
    mt_interrupt_by(NULL);
    unlink(temp_path("slow"));
    free(data);
}

/* ---- whole files ----------------------------------------------------------------------------- */

static void test_no_file(void **state) {
    (void)state;
    mt_error err;
    char *data;
    size_t n;
    assert_int_equal(mt_input_read(temp_path("none"), MT_INPUT_ANY, &data, &n, &err), MT_BAD);
    assert_non_null(strstr(err.text, "none: cannot be opened: No such file"));
    assert_int_equal(mt_input_read(temp_folder, MT_INPUT_ANY, &data, &n, &err), MT_BAD);
    assert_int_equal(mt_input_read("/dev/fd/9999", MT_INPUT_ANY, &data, &n, &err), MT_BAD);
    assert_int_equal(mt_input_read("a\nb", MT_INPUT_ANY, &data, &n, &err), MT_BAD);
    assert_string_equal(err.text, "a\\x0ab: cannot be opened: No such file or directory");
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peek),
        cmocka_unit_test(test_peek_at_little),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_line_refused),
        cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_stdin_name),
        cmocka_unit_test(test_fifo),
        cmocka_unit_test(test_interrupted_reads),
        cmocka_unit_test(test_interrupted_writes),
        cmocka_unit_test(test_interrupted_but_read),
        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests_name("input", tests, temp_setup, temp_teardown);
}
