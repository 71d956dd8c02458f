/* memory.c - see memory.h. */
#include "memory.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SPACE    ((size_t)16 << 40) /* bytes of address space */
#define PAGES    (SPACE / PAGE)
#define SEGMENTS ((size_t)1 << 20)
#define TEXT     ((size_t)1 << 20)

typedef struct segment {
    uintptr_t base;
    size_t bytes;
    bool is_range;
} segment;

typedef struct handle {
    size_t bytes;
    int maps;
    bool released;
} handle;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static device dev;
static uintptr_t space, low, high; /* the address space; bounds of what was never used */
static enum { UP, DOWN, REUSE } order;
static bool held;
static uint32_t *owner;  /* of each page: its segment's number + 1, 0 = none */
static handle **mapping; /* of the first page of each mapping */
static segment *segments;
static uint32_t segment_count;

/* ---- setting up ------------------------------------------------------------------------------ */

/* Memory that costs nothing until it is touched. */
static void *lazy(size_t bytes, int protection) {
    void *p = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("simulated device");
        abort();
    }
    return p;
}

static int usual_multiprocessors(int cc) {
    switch (cc) {
    case 80:
        return 108;
    case 89:
        return 142;
    case 90:
        return 132;
    case 100:
        return 148;
    case 120:
        return 188;
    default:
        return 84;
    }
}

static void set_up(void) {
    const char *s = getenv("ORACLE_MEMORY");
    dev.total = s != NULL ? strtoull(s, NULL, 10) : (size_t)48 << 30;
    s = getenv("ORACLE_CC");
    if (s == NULL || sscanf(s, "%d.%d", &dev.major, &dev.minor) != 2) {
        dev.major = 8;
        dev.minor = 6;
    }
    s = getenv("ORACLE_SMS");
    dev.multiprocessors = s != NULL ? atoi(s) : usual_multiprocessors(10 * dev.major + dev.minor);
    s = getenv("ORACLE_ADDRESSES");
    order = s == NULL ? UP : strcmp(s, "down") == 0 ? DOWN : strcmp(s, "reuse") == 0 ? REUSE : UP;
    space = (uintptr_t)lazy(SPACE + PAGE, PROT_NONE);
    space = (space + PAGE - 1) / PAGE * PAGE;
    low = space;
    high = space + SPACE;
    owner = lazy(PAGES * sizeof *owner, PROT_READ | PROT_WRITE);
    mapping = lazy(PAGES * sizeof *mapping, PROT_READ | PROT_WRITE);
    segments = lazy(SEGMENTS * sizeof *segments, PROT_READ | PROT_WRITE);
}

static void lock(void) {
    pthread_once(&once, set_up);
    pthread_mutex_lock(&mutex);
}

static void unlock(void) {
    pthread_mutex_unlock(&mutex);
}

const device *device_get(void) {
    pthread_once(&once, set_up);
    return &dev;
}

static size_t pages(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE;
}

static size_t page_of(uintptr_t at) {
    return (at - space) / PAGE;
}

bool device_holds(const void *at) {
    return space != 0 && (uintptr_t)at >= space && (uintptr_t)at < space + SPACE;
}

/* ---- the text of the calls ------------------------------------------------------------------- */

static char text[TEXT];
static size_t text_n;
static bool text_lost;
static struct {
    char op; /* 0: the last call was not about pages */
    uint32_t number;
    uint64_t first, end;
    size_t at; /* in the text */
} last;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    last.op = 0;
    if (TEXT - text_n < 128)
        text_lost = true;
    else
        text_n += (size_t)vsnprintf(text + text_n, TEXT - text_n, format, args);
    va_end(args);
}

/* A call on pages; neighbours are written as one. */
static void say_pages(char op, uintptr_t at, size_t bytes) {
    uint32_t number = owner[page_of(at)] - 1;
    uint64_t first = at - segments[number].base, end = first + bytes;
    if (last.op == op && last.number == number && last.end == first && !text_lost) {
        text_n = last.at;
        first = last.first;
    }
    size_t start = text_n;
    say("%c%u+%zu:%zu ", op, number, (size_t)first, (size_t)(end - first));
    last.op = op;
    last.number = number;
    last.first = first;
    last.end = end;
    last.at = start;
}

long oracle_calls(char *out, size_t room) {
    lock();
    size_t n = text_n > 0 ? text_n - 1 : 0; /* without the last blank */
    bool lost = text_lost || n > room;
    if (!lost)
        memcpy(out, text, n);
    text_n = 0;
    text_lost = false;
    last.op = 0;
    unlock();
    return lost ? -1 : (long)n;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* The lowest run of free pages; PAGES when there is none. */
static size_t lowest(size_t n) {
    size_t run = 0;
    for (size_t p = 0; p < PAGES; p++) {
        if (owner[p] != 0) {
            p += pages(segments[owner[p] - 1].bytes) - 1;
            run = 0;
        } else if (++run == n) {
            return p + 1 - n;
        }
    }
    return PAGES;
}

static void *add_segment(size_t bytes, bool is_range) {
    size_t n = pages(bytes);
    uintptr_t base;
    if (n > (high - low) / PAGE || segment_count == SEGMENTS)
        return NULL;
    if (order == UP) {
        base = low;
        low += n * PAGE;
    } else if (order == DOWN) {
        base = high -= n * PAGE;
    } else {
        size_t p = lowest(n);
        if (p == PAGES)
            return NULL;
        base = space + p * PAGE;
    }
    segments[segment_count++] = (segment){ base, bytes, is_range };
    for (size_t i = 0; i < n; i++)
        owner[page_of(base) + i] = segment_count;
    return (void *)base;
}

/* The number of the segment that starts here, or -1. */
static long starts(const void *at, bool is_range) {
    if (!device_holds(at))
        return -1;
    long number = (long)owner[page_of((uintptr_t)at)] - 1;
    if (number < 0 || segments[number].base != (uintptr_t)at ||
        segments[number].is_range != is_range)
        return -1;
    return number;
}

static void drop_segment(long number) {
    const segment *s = &segments[number];
    memset(&owner[page_of(s->base)], 0, pages(s->bytes) * sizeof *owner);
}

void *device_malloc(size_t bytes) {
    lock();
    size_t need = pages(bytes) * PAGE;
    void *at = need <= dev.total - dev.used ? add_segment(bytes, false) : NULL;
    if (at != NULL)
        dev.used += need;
    say("%c%zu ", at != NULL ? 'M' : 'X', bytes);
    unlock();
    return at;
}

bool device_free(void *at) {
    lock();
    long number = starts(at, false);
    if (number >= 0) {
        dev.used -= pages(segments[number].bytes) * PAGE;
        drop_segment(number);
        say("F%ld ", number);
    }
    unlock();
    return number >= 0;
}

void *device_reserve(size_t bytes) {
    lock();
    void *at = add_segment(bytes, true);
    if (at != NULL)
        say("R%zu ", bytes);
    unlock();
    return at;
}

bool device_unreserve(void *at, size_t bytes) {
    lock();
    long number = starts(at, true);
    bool good = number >= 0 && segments[number].bytes == bytes;
    if (good) {
        drop_segment(number);
        say("A%ld ", number);
    }
    unlock();
    return good;
}

/* ---- pages ----------------------------------------------------------------------------------- */

void *device_create(size_t bytes) {
    lock();
    handle *h = NULL;
    if (bytes > dev.total - dev.used || (h = calloc(1, sizeof *h)) == NULL) {
        say("x%zu ", bytes);
    } else {
        h->bytes = bytes;
        dev.used += bytes;
    }
    unlock();
    return h;
}

static void settle(handle *h) {
    if (h->released && h->maps == 0) {
        dev.used -= h->bytes;
        free(h);
    }
}

void device_release(void *h) {
    lock();
    ((handle *)h)->released = true;
    settle(h);
    unlock();
}

void device_map(void *at, size_t bytes, void *h) {
    lock();
    mapping[page_of((uintptr_t)at)] = h;
    ((handle *)h)->maps++;
    say_pages('P', (uintptr_t)at, bytes);
    unlock();
}

bool device_unmap(void *at, size_t bytes) {
    lock();
    handle **h = device_holds(at) ? &mapping[page_of((uintptr_t)at)] : NULL;
    bool good = h != NULL && *h != NULL && (*h)->bytes == bytes;
    if (good) {
        say_pages('U', (uintptr_t)at, bytes);
        (*h)->maps--;
        settle(*h);
        *h = NULL;
    }
    unlock();
    return good;
}

/* ---- for the recorder ------------------------------------------------------------------------ */

long oracle_locate(uintptr_t at, uint64_t *offset) {
    lock();
    long number = device_holds((void *)at) ? (long)owner[page_of(at)] - 1 : -1;
    if (number >= 0)
        *offset = at - segments[number].base;
    unlock();
    return number;
}

bool device_held(void) {
    return held;
}

void oracle_hold(int on) {
    held = on != 0;
}
