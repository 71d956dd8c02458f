/* preload.c - a library, loaded before the program, that makes the program run out of host memory.
 *
 * It stands in front of malloc and its kin and tells who calls by the return address. Calls of the
 * program itself, of the C library for it, and of the libraries named below are numbered from 1;
 * calls of others (the loader, OpenBLAS) are let through.
 *
 *     MALLOC_FAIL=N      the Nth call fails
 *     MALLOC_FAIL=N+     the Nth call and all after it fail
 *     MALLOC_LIBC=no     calls of the C library for the program are let through, but for those of
 *                        open_memstream
 *     MALLOC_REPORT=F    nothing fails; at the end F says which calls there were:
 *                            at N              one to be failed
 *                            failed MODULE n   calls of a module that are numbered
 *                            left MODULE n     calls of a module that are not
 *
 * Calls that come the same way (equal return addresses all the way up) are one kind. Of each kind
 * the report names the first FIRST, the last, and every one whose number in its kind is a power of
 * two. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The C library's own. */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t count, size_t n);
extern void *__libc_realloc(void *old, size_t n);
extern void *__libc_memalign(size_t alignment, size_t n);

enum { MODULES = 64, FRAMES = 24, FIRST = 2, CALLS_MOST = 1 << 21 };

typedef struct module {
    uintptr_t begin, end;
    const char *name;
    bool numbered;
    atomic_ulong calls;
} module;

typedef struct call {
    uint64_t way; /* hash of the return addresses */
} call;

static module modules[MODULES];
static int module_count;
static atomic_ulong calls; /* numbered ones */
static unsigned long fail_from, fail_to;
static const char *report;
static call *list; /* [CALLS_MOST]; with a report only */
static bool ready;
static _Thread_local bool inside; /* a call of this library's own */

/* ---- who calls ------------------------------------------------------------------------------- */

/* The program comes first in the loader's list, without a name. */
static bool is_numbered(const char *name) {
    const char *libc = getenv("MALLOC_LIBC");
    if (libc != NULL && strncmp(name, "libc.so", 7) == 0)
        return false;
    static const char *const names[] = { "program",       "libc.so", "libjansson.so",
                                         "libpcre2-8.so", "libz.so", "libzstd.so" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static module *find(const void *address) {
    uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < module_count; i++)
        if (at >= modules[i].begin && at < modules[i].end)
            return &modules[i];
    return NULL;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
    if (module_count == MODULES)
        return 1;
    module *m = &modules[module_count];
    m->begin = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD)
            continue;
        uintptr_t at = info->dlpi_addr + p->p_vaddr;
        m->begin = at < m->begin ? at : m->begin;
        m->end = at + p->p_memsz > m->end ? at + p->p_memsz : m->end;
    }
    if (find((void *)m->begin) != NULL)
        return 0;
    m->name = module_count == 0 ? "program" : strdup(name);
    m->numbered = is_numbered(m->name);
    module_count++;
    return 0;
}

/* Looks again when it finds none: modules are loaded later, too. */
static module *module_of(const void *address) {
    module *m = find(address);
    if (m == NULL) {
        inside = true;
        dl_iterate_phdr(add_module, NULL);
        inside = false;
        m = find(address);
    }
    return m;
}

/* ---- the numbers ----------------------------------------------------------------------------- */

static void note(unsigned long number) {
    void *frame[FRAMES];
    if (list == NULL || number > CALLS_MOST)
        return;
    inside = true;
    int n = backtrace(frame, FRAMES);
    inside = false;
    uint64_t way = 14695981039346656037u;
    for (int i = 2; i < n; i++)
        way = (way ^ (uintptr_t)frame[i]) * 1099511628211u;
    list[number - 1].way = way;
}

/* Whether this call, which returns to `to`, must fail. */
static bool __attribute__((noinline)) must_fail(const void *to) {
    if (!ready || inside)
        return false;
    module *m = module_of(to);
    if (m == NULL)
        return false;
    m->calls++;
    if (!m->numbered)
        return false;
    unsigned long number = atomic_fetch_add(&calls, 1) + 1;
    note(number);
    if (number < fail_from || number > fail_to)
        return false;
    errno = ENOMEM;
    return true;
}

#define FAILS must_fail(__builtin_return_address(0))

void *malloc(size_t n) {
    return FAILS ? NULL : __libc_malloc(n);
}

void *calloc(size_t count, size_t n) {
    return FAILS ? NULL : __libc_calloc(count, n);
}

void *realloc(void *old, size_t n) {
    return FAILS ? NULL : __libc_realloc(old, n);
}

void *memalign(size_t alignment, size_t n) {
    return FAILS ? NULL : __libc_memalign(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n) {
    return FAILS ? NULL : __libc_memalign(alignment, n);
}

int posix_memalign(void **out, size_t alignment, size_t n) {
    if (FAILS)
        return ENOMEM;
    *out = __libc_memalign(alignment, n);
    return *out == NULL ? ENOMEM : 0;
}

FILE *open_memstream(char **text, size_t *n) {
    FILE *(*real)(char **, size_t *) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "open_memstream");
    return FAILS ? NULL : real(text, n);
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void write_kinds(FILE *f) {
    unsigned long n = calls < CALLS_MOST ? calls : CALLS_MOST;
    for (unsigned long i = 0; i < n; i++) {
        unsigned long before = 0;
        bool last = true;
        for (unsigned long k = 0; k < i; k++)
            before += list[k].way == list[i].way;
        for (unsigned long k = i + 1; k < n && last; k++)
            last = list[k].way != list[i].way;
        if (before < FIRST || last || (before & (before + 1)) == 0)
            fprintf(f, "at %lu\n", i + 1);
    }
}

static void __attribute__((destructor)) end(void) {
    inside = true;
    FILE *f = report != NULL ? fopen(report, "w") : NULL;
    if (f == NULL)
        return;
    write_kinds(f);
    for (int i = 0; i < module_count; i++)
        if (modules[i].calls > 0)
            fprintf(f, "%s %s %lu\n", modules[i].numbered ? "failed" : "left", modules[i].name,
                    modules[i].calls);
    fclose(f);
}

static void __attribute__((constructor)) begin(void) {
    void *frame[1];
    const char *fail = getenv("MALLOC_FAIL");
    inside = true;
    report = getenv("MALLOC_REPORT");
    if (report != NULL) {
        backtrace(frame, 1); /* loads what it needs */
        void *memory = mmap(NULL, CALLS_MOST * sizeof *list, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        list = memory == MAP_FAILED ? NULL : memory;
    } else if (fail != NULL) {
        fail_from = strtoul(fail, NULL, 10);
        fail_to = strchr(fail, '+') != NULL ? UINT64_MAX : fail_from;
    }
    dl_iterate_phdr(add_module, NULL);
    inside = false;
    ready = true;
}
