/* read_nsight.c - Nsight Systems' export to SQLite: every call of the driver that took memory or
 * gave it back, from a recording with --cuda-memory-usage=true.
 *
 * Table CUDA_GPU_MEMORY_USAGE_EVENTS, one row a call, integers:
 *
 *     start                ns
 *     globalPid            the process is (globalPid / 0x1000000) % 0x1000000
 *     deviceId, contextId
 *     address              of one context of one process only
 *     bytes
 *     memKind              0 pageable, 1 pinned: host memory; 2 device, 3 array, 4 managed, 5
 * device static, 6 managed static, 7 unknown memoryOperationType  0 allocation, 1 deallocation
 *     streamId, localMemoryPoolSize, localMemoryPoolUtilizedSize
 *                          may be missing or NULL; of cudaMallocAsync only, whose bytes are those
 *                          requested and whose pool has and uses that much
 *
 * Rows of other calls are what an allocator took as a segment: the requests of the program are not
 * in the file. A table that is missing, as it is in exports without the option, is refused with the
 * name of the option. Columns are found by name. A database is opened by its name; from a pipe or
 * compressed it is copied to a temporary file first. An address that is allocated while it is live
 * was freed by a call that is not in the table. */
#include "traces/reader.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/torch/torch.h"
#include "base/descriptor.h"
#include "base/interrupt.h"

#define TABLE "CUDA_GPU_MEMORY_USAGE_EVENTS"
#define ASK   10000     /* steps of the database between two questions whether to stop */
#define VALUE (1 << 20) /* bytes of a value at most */

enum {
    START,
    PROCESS,
    DEVICE,
    CONTEXT,
    ADDRESS,
    BYTES,
    KIND,
    OPERATION,
    NEEDED,
    STREAM = NEEDED,
    POOL,
    USED,
    COLUMNS
};

static const char *const names[COLUMNS] = {
    "start",
    "globalPid",
    "deviceId",
    "contextId",
    "address",
    "bytes",
    "memKind",
    "memoryOperationType",
    "streamId",
    "localMemoryPoolSize",
    "localMemoryPoolUtilizedSize",
};

#define AT(name, part)                                                                             \
    { name, offsetof(mt_torch_stats, pool[0][part].current) }
static const mt_counter counters[] = {
    AT("reserved", MT_TORCH_reserved_bytes),
    AT("allocated", MT_TORCH_allocated_bytes),
};

typedef struct nsight {
    mt_reader base;
    sqlite3 *db;
    sqlite3_stmt *rows;
    mt_numbers processes, contexts, pages;
    int64_t first; /* start of the first row */
    uint64_t count[2];
    bool again; /* the row is told once more: its address was live */
} nsight;

static bool detect(const char *data, size_t n) {
    static const char magic[16] = "SQLite format 3";
    return n >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* SQLite says that it is out of memory when a damaged file names an absurd length, too. */
static bool short_of_memory(void) {
    void *volatile some = malloc(VALUE);
    free(some);
    return some == NULL;
}

static mt_status fail(const nsight *x, int code, mt_error *err) {
    int kind = code & 0xff;
    bool damaged = kind == SQLITE_NOMEM && !short_of_memory();
    mt_status status = kind == SQLITE_INTERRUPT                                    ? MT_INTERRUPTED
                       : (kind == SQLITE_NOMEM && !damaged) || kind == SQLITE_FULL ? MT_FAILED
                                                                                   : MT_BAD;
    return mt_fail(err, status, "%s: cannot be read as a database: %s", mt_input_name(x->base.in),
                   damaged         ? "out of memory, or a damaged length in it"
                   : x->db != NULL ? sqlite3_errmsg(x->db)
                                   : sqlite3_errstr(code));
}

static int asked(void *unused) {
    (void)unused;
    return mt_interrupted();
}

/* Nothing that the file says runs, and it is not written to. */
static mt_status open_path(nsight *x, const char *path, mt_error *err) {
    char *name = NULL; /* no name of SQLite's own, such as :memory: */
    if (asprintf(&name, "%s%s", *path == '/' ? "" : "./", path) < 0)
        return mt_no_memory(err, "the name of a file");
    int code = sqlite3_open_v2(name, &x->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    free(name);
    if (code != SQLITE_OK)
        return fail(x, code, err);
    sqlite3_db_config(x->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(x->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_limit(x->db, SQLITE_LIMIT_LENGTH, VALUE);
    sqlite3_progress_handler(x->db, ASK, asked, NULL);
    return MT_OK;
}

static mt_status copy_to(const nsight *x, int fd, mt_error *err) {
    char piece[1 << 16];
    size_t n;
    for (;;) {
        MT_TRY(mt_input_some(x->base.in, piece, sizeof piece, &n, err));
        if (n == 0)
            return MT_OK;
        for (size_t at = 0; at < n;) {
            ssize_t more = mt_write(fd, piece + at, n - at);
            if (more < 0)
                return mt_fail(err, MT_FAILED, "%s: cannot be copied to /tmp: %m",
                               mt_input_name(x->base.in));
            at += (size_t)more;
        }
    }
}

/* By way of a file that is gone once it is open. */
static mt_status open_copy(nsight *x, mt_error *err) {
    char path[] = "/tmp/memtrace-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        return mt_fail(err, MT_FAILED, "%s: cannot be created: %m", path);
    mt_status status = copy_to(x, fd, err);
    close(fd);
    if (status == MT_OK)
        status = open_path(x, path, err);
    if (status == MT_OK &&
        sqlite3_exec(x->db, "SELECT 1 FROM sqlite_schema", NULL, NULL, NULL) != SQLITE_OK)
        status = fail(x, sqlite3_errcode(x->db), err);
    unlink(path);
    return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

static mt_status prepare(nsight *x, const char *sql, sqlite3_stmt **out, mt_error *err) {
    int code = sqlite3_prepare_v2(x->db, sql, -1, out, NULL);
    return code == SQLITE_OK ? MT_OK : fail(x, code, err);
}

/* Which columns the table has. A view of that name is none. */
static mt_status find_columns(nsight *x, bool there[COLUMNS], mt_error *err) {
    sqlite3_stmt *s;
    int code;
    MT_TRY(prepare(x,
                   "SELECT c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c "
                   "WHERE t.type = 'table' AND t.name = '" TABLE "' "
                   "AND t.sql LIKE 'CREATE TABLE%'",
                   &s, err));
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(s, 0);
        for (int i = 0; i < COLUMNS; i++)
            there[i] = there[i] || (name != NULL && strcmp(name, names[i]) == 0);
    }
    mt_status status = code == SQLITE_DONE ? MT_OK : fail(x, code, err);
    sqlite3_finalize(s);
    return status;
}

static mt_status check_columns(const nsight *x, const bool there[COLUMNS], mt_error *err) {
    bool any = false;
    for (int i = 0; i < COLUMNS; i++)
        any = any || there[i];
    if (!any)
        return mt_fail(err, MT_BAD,
                       "%s: no table " TABLE
                       ", expected a recording of nsys profile --cuda-memory-usage=true",
                       mt_input_name(x->base.in));
    for (int i = 0; i < NEEDED; i++)
        if (!there[i])
            return mt_fail(err, MT_BAD, "%s: no column %s in " TABLE, mt_input_name(x->base.in),
                           names[i]);
    return MT_OK;
}

static mt_status select_rows(nsight *x, mt_error *err) {
    char sql[600];
    bool there[COLUMNS] = { false };
    size_t n = (size_t)snprintf(sql, sizeof sql, "SELECT ");
    MT_TRY(find_columns(x, there, err));
    MT_TRY(check_columns(x, there, err));
    for (int i = 0; i < COLUMNS; i++)
        n += (size_t)snprintf(sql + n, sizeof sql - n, "%s%s", i > 0 ? ", " : "",
                              there[i] ? names[i] : "NULL");
    snprintf(sql + n, sizeof sql - n, " FROM " TABLE " ORDER BY start");
    return prepare(x, sql, &x->rows, err);
}

static mt_status open_rows(nsight *x, mt_error *err) {
    const char *path = mt_input_path(x->base.in);
    MT_TRY(path != NULL ? open_path(x, path, err) : open_copy(x, err));
    return select_rows(x, err);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A number for a process and a context in it. */
static mt_status space_of(nsight *x, int64_t process, int64_t context, uint32_t *space,
                          mt_error *err) {
    uint64_t name = (uint64_t)process;
    uint32_t p = mt_numbers_find(&x->processes, name);
    if (p == MT_NO_NUMBER && (p = mt_numbers_take(&x->processes, name)) == MT_NO_NUMBER)
        return mt_no_memory(err, "reading a recording");
    name = (uint64_t)p << 32 | (uint32_t)context;
    *space = mt_numbers_find(&x->contexts, name);
    if (*space == MT_NO_NUMBER)
        *space = mt_numbers_take(&x->contexts, name);
    return *space != MT_NO_NUMBER ? MT_OK : mt_no_memory(err, "reading a recording");
}

static mt_status read_values(const nsight *x, int64_t value[COLUMNS], mt_error *err) {
    for (int i = 0; i < COLUMNS; i++) {
        int type = sqlite3_column_type(x->rows, i);
        if (type != SQLITE_INTEGER && (i < NEEDED || type != SQLITE_NULL))
            return mt_reader_bad(&x->base, err, "%s is no integer", names[i]);
        value[i] = sqlite3_column_int64(x->rows, i);
    }
    if (value[DEVICE] < 0 || value[DEVICE] >= UINT32_MAX || value[CONTEXT] < 0 ||
        value[CONTEXT] > UINT32_MAX || value[STREAM] < 0 || value[STREAM] > UINT32_MAX)
        return mt_reader_bad(&x->base, err, "expected numbers of a device, a context, a stream");
    if (value[OPERATION] != 0 && value[OPERATION] != 1)
        return mt_reader_bad(&x->base, err, "memoryOperationType is %" PRId64 ", expected 0 or 1",
                             value[OPERATION]);
    return value[BYTES] >= 0 ? MT_OK : mt_reader_bad(&x->base, err, "bytes is negative");
}

static void tell_pool(nsight *x, const int64_t value[COLUMNS], mt_item *item) {
    if (sqlite3_column_type(x->rows, POOL) == SQLITE_NULL || value[POOL] <= 0)
        return;
    x->count[0] = (uint64_t)value[POOL];
    x->count[1] = (uint64_t)value[USED];
    item->has |= MT_HAS_COUNTERS;
    item->counter = counters;
    item->count = x->count;
    item->counters = 2;
}

static mt_status row(nsight *x, mt_item *item, mt_error *err) {
    int64_t value[COLUMNS];
    uint32_t space;
    MT_TRY(read_values(x, value, err));
    if (x->base.line == 1)
        x->first = value[START];
    if (value[BYTES] == 0 && value[OPERATION] == 0)
        return MT_OK;
    item->kind = value[OPERATION] == 0 ? MT_ITEM_ALLOC : MT_ITEM_FREE;
    item->bytes = item->kind == MT_ITEM_ALLOC ? (uint64_t)value[BYTES] : 0;
    item->time_ns = (uint64_t)value[START] - (uint64_t)x->first;
    item->device = (uint32_t)value[DEVICE];
    item->host = value[KIND] == 0 || value[KIND] == 1;
    item->stream = (uint32_t)value[STREAM];
    item->process = (uint32_t)(((uint64_t)value[PROCESS] >> 24) & 0xffffff);
    tell_pool(x, value, item);
    MT_TRY(space_of(x, value[PROCESS], value[CONTEXT], &space, err));
    return mt_reader_address(&x->base, &x->pages, space, (uint64_t)value[ADDRESS], item, &x->again,
                             err);
}

static mt_status next(mt_reader *r, mt_item *item, mt_error *err) {
    nsight *x = (nsight *)r;
    if (x->rows == NULL)
        MT_TRY(open_rows(x, err));
    while (item->kind == MT_ITEM_END) {
        int code = x->again ? SQLITE_ROW : sqlite3_step(x->rows);
        if (code == SQLITE_DONE)
            return MT_OK;
        if (code != SQLITE_ROW)
            return fail(x, code, err);
        r->line += !x->again;
        MT_TRY(row(x, item, err));
    }
    return MT_OK;
}

static void close_nsight(mt_reader *r) {
    nsight *x = (nsight *)r;
    sqlite3_finalize(x->rows);
    sqlite3_close(x->db);
    mt_numbers_free(&x->processes);
    mt_numbers_free(&x->contexts);
    mt_numbers_free(&x->pages);
}

const mt_format mt_format_nsight = {
    .word = "nsight",
    .name = "an export of Nsight Systems to SQLite",
    .tells = MT_TELLS_CONTEXT | MT_TELLS_RESERVED | MT_TELLS_FREES | MT_TELLS_STREAMS,
    .detect = detect,
    .size = sizeof(nsight),
    .next = next,
    .close = close_nsight,
};
