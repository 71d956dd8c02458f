/* tokenize.c - `memtrace tokenize`: stdin to ids, or back. */
#include "cli/cli.h"

#include <ctype.h>
#include <inttypes.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/size.h"

static const char doc[] =
    "Reads text from standard input and prints its GPT-2 token ids, space-separated; with "
    "--decode reads ids and prints the text.\vExamples:\n"
    "  echo -n 'Hello world' | memtrace tokenize --model DIR\n"
    "  echo 15496 995 | memtrace tokenize --decode --model DIR\n"
    "\n"
    "Exit status: 0 done; 2 bad input or usage; 4 a read or write failed.";

typedef struct tokenize_options {
    const char *model;
    bool decode;
} tokenize_options;

#define FIELD(name) offsetof(tokenize_options, name)

static const cli_option rows[] = {
    { CLI_GROUP, .help = "Options:" },
    { CLI_TEXT, FIELD(model), "model", "DIR",
      .help = "folder of vocab.json and merges.txt (or encoder.json and vocab.bpe)" },
    { CLI_TEXT, FIELD(model), "tokenizer", "DIR", .help = "the same" },
    { CLI_FLAG, FIELD(decode), "decode", .help = "read ids, print text" },
    { .name = NULL },
};

static void check(struct argp_state *state, void *input) {
    if (((tokenize_options *)input)->model == NULL)
        cli_usage_error(state, "--model DIR is needed: the folder of vocab.json and merges.txt");
}

static const cli_usage usage = { .doc = doc,
                                 .table = { { rows, 0 } },
                                 .hint = "; text is read from standard input",
                                 .check = check };

static mt_status read_stdin(char **text, size_t *n, mt_error *err) {
    size_t room = 0;
    *text = NULL;
    *n = 0;
    do {
        if (!mt_array_grow(text, &room, *n + 65536, 1))
            return mt_no_memory(err, "the input");
        *n += fread(*text + *n, 1, room - *n, stdin);
    } while (*n == room);
    (*text)[*n] = '\0';
    if (ferror(stdin))
        return mt_fail(err, MT_FAILED, "cannot read standard input: %s", strerror(errno));
    return MT_OK;
}

static mt_status encode(mt_tokenizer *t, const char *text, size_t n, mt_error *err) {
    int32_t *ids;
    size_t count;
    MT_TRY(mt_tokenizer_encode(t, text, n, &ids, &count, err));
    for (size_t i = 0; i < count; i++)
        printf("%s%" PRId32, i > 0 ? " " : "", ids[i]);
    putchar('\n');
    free(ids);
    return MT_OK;
}

/* Reads ids with white space between. */
static mt_status read_ids(const char *text, size_t n, int32_t *ids, size_t *count, mt_error *err) {
    *count = 0;
    for (size_t i = 0; i < n;) {
        char word[16];
        size_t length;
        uint64_t id;
        while (i < n && isspace((unsigned char)text[i]))
            i++;
        if (i == n)
            return MT_OK;
        size_t from = i;
        while (i < n && !isspace((unsigned char)text[i]))
            i++;
        length = i - from < sizeof word ? i - from : sizeof word - 1; /* cut: no id is so long */
        memcpy(word, text + from, length);
        word[length] = '\0';
        if (i - from != strlen(word) || !mt_parse_u64(word, 0, INT32_MAX, &id))
            return mt_fail(err, MT_BAD, "standard input, id %zu: expected a number, not %.12s",
                           *count + 1, word);
        ids[(*count)++] = (int32_t)id;
    }
    return MT_OK;
}

static mt_status decode(mt_tokenizer *t, const char *text, size_t n, mt_error *err) {
    int32_t *ids = malloc((n / 2 + 1) * sizeof *ids);
    char *out = NULL;
    size_t count, bytes;
    if (ids == NULL)
        return mt_no_memory(err, "the ids");
    mt_status status = read_ids(text, n, ids, &count, err);
    if (status == MT_OK)
        status = mt_tokenizer_decode(t, ids, count, &out, &bytes, err);
    if (status == MT_OK)
        fwrite(out, 1, bytes, stdout);
    free(out);
    free(ids);
    return status;
}

int cli_tokenize(int argc, char **argv) {
    tokenize_options o = { 0 };
    mt_tokenizer *t = NULL;
    char *text = NULL;
    size_t n;
    mt_error err;
    cli_parse(&usage, argc, argv, &o);
    cli_leave_interrupts();
    mt_status status = mt_tokenizer_open_folder(&t, o.model, &err);
    if (status == MT_OK)
        status = read_stdin(&text, &n, &err);
    if (status == MT_OK)
        status = (o.decode ? decode : encode)(t, text, n, &err);
    cli_fail(status, &err);
    free(text);
    mt_tokenizer_close(t);
    return cli_flush(status);
}
