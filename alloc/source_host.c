/* source_host.c - segments from this machine's memory, by mmap.
 *
 * Pieces of 2 MiB and more begin on a 2 MiB boundary and ask for huge pages, which matters to a
 * program that streams its weights. Pages cost nothing until they are touched. A growable range is
 * reserved without access; mapping gives it memory, unmapping takes the memory away and keeps the
 * addresses. */
#include "alloc/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE (2 * MT_MIB)

/* The capacity would hold it: it is the machine that fails. */
static mt_status refused(uint64_t bytes, mt_error *err) {
    return mt_fail(err, MT_FAILED, "the host refused %" PRIu64 " bytes: %s (see ulimit -v)", bytes,
                   strerror(errno));
}

/* Maps bytes at a multiple of HUGE_PAGE: maps more and cuts the ends off. NULL when refused. */
static void *map_aligned(uint64_t bytes, int protection) {
    uint64_t more = bytes >= HUGE_PAGE ? bytes + HUGE_PAGE : bytes;
    char *p = mmap(NULL, more, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (more == bytes)
        return p;
    uint64_t head = mt_round_up((uintptr_t)p, HUGE_PAGE) - (uintptr_t)p;
    if (head > 0)
        munmap(p, head);
    if (more - head > bytes)
        munmap(p + head + bytes, more - head - bytes);
    return p + head;
}

static mt_status host_take(mt_source *s, uint64_t bytes, void **ptr, mt_error *err) {
    uint64_t pages = mt_round_up(bytes, s->granularity);
    MT_TRY(mt_source_count(s, bytes, err));
    *ptr = map_aligned(pages, PROT_READ | PROT_WRITE);
    if (*ptr == NULL) {
        mt_source_uncount(s, bytes);
        return refused(bytes, err);
    }
    if (pages >= HUGE_PAGE)
        madvise(*ptr, pages, MADV_HUGEPAGE);
    return MT_OK;
}

static void host_give(mt_source *s, void *ptr, uint64_t bytes) {
    munmap(ptr, mt_round_up(bytes, s->granularity));
    mt_source_uncount(s, bytes);
}

static mt_status host_reserve(mt_source *s, uint64_t bytes, void **base, mt_error *err) {
    (void)s;
    *base = map_aligned(bytes, PROT_NONE);
    return *base != NULL ? MT_OK : refused(bytes, err);
}

static mt_status host_map(mt_source *s, void *base, uint64_t offset, uint64_t bytes,
                          mt_error *err) {
    char *at = (char *)base + offset;
    MT_TRY(mt_source_count(s, bytes, err));
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) {
        mt_source_uncount(s, bytes);
        return refused(bytes, err);
    }
    madvise(at, bytes, MADV_HUGEPAGE);
    return MT_OK;
}

static void host_unmap(mt_source *s, void *base, uint64_t offset, uint64_t bytes) {
    char *at = (char *)base + offset;
    madvise(at, bytes, MADV_DONTNEED);
    mprotect(at, bytes, PROT_NONE);
    mt_source_uncount(s, bytes);
}

static void host_release(mt_source *s, void *base, uint64_t bytes) {
    (void)s;
    munmap(base, bytes);
}

static void host_close(mt_source *s) {
    free(s);
}

mt_status mt_source_host(mt_source **out, uint64_t capacity, mt_error *err) {
    mt_source *s = calloc(1, sizeof *s);
    if (s == NULL)
        return mt_no_memory(err, "a source");
    *s = (mt_source){
        .name = "host",
        .capacity = capacity,
        .granularity = 4 * MT_KIB,
        .take = host_take,
        .give = host_give,
        .reserve = host_reserve,
        .map = host_map,
        .unmap = host_unmap,
        .release = host_release,
        .close = host_close,
    };
    *out = s;
    return MT_OK;
}
