/* mapped.c - see mapped_file.h. The descriptor is closed as soon as the mapping exists. */
#include "base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/size.h"
#include "base/text.h"

static mt_status map_descriptor(mt_mapped *m, int fd, mt_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return mt_fail(err, MT_FAILED, "%s: cannot be examined: %s", m->label, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return mt_fail(err, MT_BAD, "%s: not a file, expected a regular file", m->label);
    if (info.st_size == 0)
        return MT_OK;
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return mt_fail(err, MT_FAILED, "%s: cannot be mapped: %s", m->label, strerror(errno));
    m->data = data;
    m->size = (uint64_t)info.st_size;
    return MT_OK;
}

mt_status mt_mapped_open(mt_mapped *m, const char *path, mt_error *err) {
    *m = (mt_mapped){ 0 };
    mt_printable_path(m->label, sizeof m->label, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    if (fd < 0)
        return mt_fail(err, mt_open_status(errno), "%s: cannot be opened: %s", m->label,
                       strerror(errno));
    mt_status status = map_descriptor(m, fd, err);
    close(fd);
    return status;
}

void mt_mapped_drop(const mt_mapped *m, const unsigned char *data, uint64_t bytes) {
    if (bytes == 0)
        return;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = (uint64_t)(data - m->data) / page * page;
    uint64_t end = mt_round_up((uint64_t)(data - m->data) + bytes, page);
    /* Only advice: when it is refused the pages merely stay longer. */
    (void)madvise((void *)(uintptr_t)(m->data + begin), end - begin, MADV_DONTNEED);
}

void mt_mapped_close(mt_mapped *m) {
    if (m->data != NULL)
        munmap((void *)(uintptr_t)m->data, m->size);
    m->data = NULL;
    m->size = 0;
}
