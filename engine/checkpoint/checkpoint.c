/* checkpoint.c - see checkpoint.h. Decides by the path which kind of checkpoint it is, checks the
 * range of a read, and leaves the rest to the kind. */
#include "engine/checkpoint/internal.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

mt_status mt_checkpoint_open(mt_checkpoint **out, const char *path, mt_error *err) {
    struct stat info;
    char label[160];
    *out = NULL;
    if (stat(path, &info) != 0)
        return mt_fail(err, MT_BAD, "%s: %s, expected a model: a folder or a file",
                       mt_printable_path(label, sizeof label, path), strerror(errno));
    if (S_ISDIR(info.st_mode) || ends_with(path, ".safetensors"))
        return mt_huggingface_open(out, path, err);
    return mt_llmc_open(out, path, err);
}

const mt_config *mt_checkpoint_config(const mt_checkpoint *ck) {
    return &ck->config;
}

const char *mt_checkpoint_source(const mt_checkpoint *ck) {
    return ck->source;
}

mt_status mt_checkpoint_read(mt_checkpoint *ck, uint32_t i, uint64_t first, uint64_t rows,
                             float *dst, mt_threads *pool, mt_error *err) {
    mt_tensor t;
    if (i >= mt_tensor_count(&ck->config))
        return mt_fail(err, MT_BAD, "%s: tensor index %u, expected one below %u", ck->source, i,
                       mt_tensor_count(&ck->config));
    mt_tensor_at(&ck->config, i, &t);
    if (first > t.rows || rows > t.rows - first)
        return mt_fail(err, MT_BAD, "%s: tensor %s: %llu rows from %llu requested, it has %llu",
                       ck->source, t.name, (unsigned long long)rows, (unsigned long long)first,
                       (unsigned long long)t.rows);
    if (rows > 0)
        ck->kind->read(ck, i, &t, first, rows, dst, pool);
    return MT_OK;
}

void mt_checkpoint_close(mt_checkpoint *ck) {
    if (ck != NULL)
        ck->kind->close(ck);
}
