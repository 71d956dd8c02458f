/* whole.c - see whole.h. */
#include "base/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/text.h"

#define MOST_AHEAD ((uint64_t)256 << 20)

/* Whether the bytes that are read are those of the file itself. */
static bool is_plain(const char *path) {
    static const char *const packed[] = { "\x1f\x8b", "\x28\xb5\x2f\xfd" };
    struct stat info;
    char first[4] = { 0 };
    if (strcmp(path, "-") == 0 || mt_descriptor_of(path) >= 0 || stat(path, &info) != 0 ||
        !S_ISREG(info.st_mode))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, first, sizeof first) < 0)
        first[0] = '\0'; /* mapping it will say why */
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (memcmp(first, packed[i], strlen(packed[i])) == 0)
            return false;
    return true;
}

static mt_status cannot(mt_error *err, const char *name, const char *what) {
    return mt_fail(err, MT_FAILED, "%s: cannot %s a temporary file: %s", name, what,
                   strerror(errno));
}

static mt_status copy(mt_input *in, FILE *to, uint64_t *size, mt_error *err) {
    static const size_t PIECE = (size_t)1 << 20;
    char *data = malloc(PIECE);
    size_t n;
    mt_status status = data != NULL ? MT_OK : mt_no_memory(err, mt_input_name(in));
    while (status == MT_OK && (status = mt_input_some(in, data, PIECE, &n, err)) == MT_OK &&
           n > 0) {
        *size += n;
        if (fwrite(data, 1, n, to) != n)
            status = cannot(err, mt_input_name(in), "write");
    }
    free(data);
    if (status == MT_OK && fflush(to) != 0)
        status = cannot(err, mt_input_name(in), "write");
    return status;
}

static mt_status spool(mt_mapped *m, mt_input *in, mt_error *err) {
    FILE *f = tmpfile();
    if (f == NULL)
        return cannot(err, mt_input_name(in), "make");
    mt_status status = copy(in, f, &m->size, err);
    if (status == MT_OK && m->size > 0) {
        void *data = mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, fileno(f), 0);
        if (data == MAP_FAILED)
            status = cannot(err, mt_input_name(in), "map");
        else
            m->data = data;
    }
    fclose(f);
    if (status != MT_OK)
        m->size = 0;
    return status;
}

/* All pages at once cost less than one fault after the other. Only advice, and only where they are
 * not too many to wait for. */
static void look_ahead(const mt_mapped *m) {
#ifdef MADV_POPULATE_READ
    if (m->size > 0 && m->size < MOST_AHEAD)
        (void)madvise((void *)(uintptr_t)m->data, m->size, MADV_POPULATE_READ);
#else
    (void)m;
#endif
}

mt_status mt_whole_open(mt_mapped *m, mt_input *in, const char *path, mt_error *err) {
    *m = (mt_mapped){ 0 };
    mt_printable_path(m->label, sizeof m->label, mt_input_name(in));
    MT_TRY(is_plain(path) ? mt_mapped_open(m, path, err) : spool(m, in, err));
    look_ahead(m);
    return MT_OK;
}
