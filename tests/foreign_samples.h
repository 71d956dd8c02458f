/* foreign_samples.h - small recordings of other programs, one of every format. */
#ifndef MT_TESTS_FOREIGN_SAMPLES_H
#define MT_TESTS_FOREIGN_SAMPLES_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/temp_files.h"

static const char rmm[] = "Thread,Time,Action,Pointer,Size,Stream\n"
                          "41,23:59:59.999990,allocate,0x7f10000000,1000,0\n"
                          "41,23:59:59.999999,allocate,0x7f10000400,24,0x55d0c0ffee\n"
                          "7,00:00:00.000001,allocate failure,(nil),8589934592,0x2\n"
                          "41,00:00:00.000010,free,0x7f10000000,1000,0\n"
                          "7,00:00:01.000000,allocate,0x7f10000000,500,0x1\n"
                          "7,00:00:01.000100,free,0x7f99990000,64,0x1\n"
                          "7,00:00:01.000200,allocate,(nil),0,0x1\n"
                          "7,00:00:01.000300,free,(nil),0,0x1\n";

static const char stalloc[] = "1 0x7f0000000000 1024 0\n"
                              "1 0x7f0000000400 2048 0x5566\n"
                              "0 0x7f0000000000 1024 0\n"
                              "1 0x7f0000000000 512 0\n";

static const char minimalloc[] = "id,lower,upper,size\n"
                                 "b1,0,3,4\n"
                                 "b2,3,9,5\n"
                                 "b3,0,9,6\n";

static const char allocatorsim[] = "0 5 92928\n"
                                   "1 2 256\n"
                                   "3 4 1228800\n";

/* Two threads: the events of the second come late. */
static const char chrome[] =
    "{\n"
    "  \"schemaVersion\": 1,\n"
    "  \"deviceProperties\": [{\"id\": 0, \"name\": \"a\\\\b\"}],\n"
    "  \"traceEvents\": [\n"
    "  {\"ph\": \"X\", \"name\": \"aten::add \\\"x\\\"\", \"ts\": 1, \"dur\": 2.5, \"args\": "
    "{\"a\": [1, "
    "{}]}},\n"
    "  {\"ph\": \"i\", \"s\": \"t\", \"name\": \"[memory]\", \"ts\": 10.5, \"args\": {\n"
    "    \"Device Type\": 1, \"Device Id\": 0, \"Addr\": 4096, \"Bytes\": 1024,\n"
    "    \"Total Allocated\": 1024, \"Total Reserved\": 2097152}},\n"
    "  {\"ph\": \"i\", \"name\": \"[memory]\", \"ts\": 30, \"args\": {\"Device Type\": 1, \"Device "
    "Id\": "
    "0, \"Addr\": 4096, \"Bytes\": -1024, \"Total Allocated\": 512, \"Total Reserved\": "
    "2097152}},\n"
    "  {\"ph\": \"i\", \"name\": \"[memory]\", \"ts\": 20.25, \"args\": {\"Device Type\": 1, "
    "\"Device "
    "Id\": 0, \"Addr\": 8192, \"Bytes\": 512, \"Total Allocated\": 1536, \"Total Reserved\": "
    "2097152}},\n"
    "  {\"ph\": \"i\", \"name\": \"[memory]\", \"ts\": 25, \"args\": {\"Device Type\": 0, \"Device "
    "Id\": "
    "-1, \"Addr\": 4096, \"Bytes\": 64, \"Total Allocated\": 64, \"Total Reserved\": 0}},\n"
    "  {\"ph\": \"i\", \"name\": \"[OutOfMemory]\", \"ts\": 40, \"args\": {\"Device Type\": 1, "
    "\"Device "
    "Id\": 0, \"Bytes\": 99999999, \"Total Allocated\": 512, \"Total Reserved\": 2097152}}\n"
    "  ],\n"
    "  \"traceName\": \"x\"\n"
    "}\n";

/* ---- pprof ----------------------------------------------------------------------------------- */

typedef struct bytes {
    char at[4096];
    size_t n;
} bytes;

static inline void put_varint(bytes *b, uint64_t value) {
    for (; value > 0x7f; value >>= 7)
        b->at[b->n++] = (char)(value | 0x80);
    b->at[b->n++] = (char)value;
}

static inline void put_number(bytes *b, unsigned field, uint64_t value) {
    put_varint(b, field << 3);
    put_varint(b, value);
}

static inline void put_bytes(bytes *b, unsigned field, const void *data, size_t n) {
    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    memcpy(b->at + b->n, data, n);
    b->n += n;
}

static inline void put_pair(bytes *b, unsigned field, uint64_t first, uint64_t second) {
    bytes pair = { .n = 0 };
    put_number(&pair, 1, first);
    put_number(&pair, 2, second);
    put_bytes(b, field, pair.at, pair.n);
}

/* Places in the table of strings. */
enum { NOTHING, SPACE, BYTES, ALLOCATIONS, COUNT, KIND, BUFFER, EXECUTABLE, DEVICE, GPU_1, TPU_0 };

static inline void put_strings(bytes *b) {
    static const char *const strings[] = { "",       "space", "bytes",           "allocations",
                                           "count",  "kind",  "buffer",          "executable",
                                           "device", "gpu:1", "TPU_0(process=3)" };
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        put_bytes(b, 6, strings[i], strlen(strings[i]));
}

/* Values packed, as programs write them, or one by one. */
static inline void put_sample(bytes *b, bool packed, int64_t count, int64_t size, unsigned kind,
                              unsigned device) {
    bytes sample = { .n = 0 }, values = { .n = 0 };
    put_bytes(&sample, 1, "\1\2", 2);
    put_varint(&values, (uint64_t)count);
    put_varint(&values, (uint64_t)size);
    if (packed) {
        put_bytes(&sample, 2, values.at, values.n);
    } else {
        put_number(&sample, 2, (uint64_t)count);
        put_number(&sample, 2, (uint64_t)size);
    }
    put_pair(&sample, 3, KIND, kind);
    put_pair(&sample, 3, DEVICE, device);
    put_bytes(b, 2, sample.at, sample.n);
}

static inline bytes pprof_sample(void) {
    bytes b = { .n = 0 };
    put_pair(&b, 1, ALLOCATIONS, COUNT);
    put_pair(&b, 1, SPACE, BYTES);
    put_sample(&b, true, 3, 1009, BUFFER, GPU_1);
    put_sample(&b, false, 1, 100, BUFFER, TPU_0);
    put_sample(&b, true, 1, -1, EXECUTABLE, TPU_0);
    put_sample(&b, true, 1, 70, EXECUTABLE, TPU_0);
    put_strings(&b);
    put_number(&b, 9, 123456789);
    return b;
}

/* ---- Nsight Systems -------------------------------------------------------------------------- */

/* The bytes of a database that some SQL makes. */
static inline bytes database(const char *sql) {
    bytes b = { .n = 0 };
    sqlite3 *db;
    const char *path = temp_path("made.sqlite");
    char *message = NULL;
    (void)remove(path);
    bool good = sqlite3_open(path, &db) == SQLITE_OK &&
                sqlite3_exec(db, sql, NULL, NULL, &message) == SQLITE_OK;
    sqlite3_close(db);
    FILE *f = fopen(path, "rb");
    if (good && f != NULL)
        b.n = fread(b.at, 1, sizeof b.at, f);
    if (!good || f == NULL || fclose(f) != 0 || b.n == sizeof b.at) {
        fprintf(stderr, "%s: %s\n", path, message != NULL ? message : "cannot be made");
        exit(1);
    }
    return b;
}

#define NSIGHT_BEGIN "PRAGMA page_size = 512; PRAGMA auto_vacuum = 0; "
#define NSIGHT_TABLE                                                                               \
    "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER, deviceId "       \
    "INTEGER, contextId INTEGER, address INTEGER, bytes INTEGER, memKind INTEGER, "                \
    "memoryOperationType INTEGER, streamId INTEGER, localMemoryPoolSize INTEGER, "                 \
    "localMemoryPoolUtilizedSize INTEGER); "
#define NSIGHT_INSERT "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES "

static inline bytes nsight_sample(void) {
    return database(NSIGHT_BEGIN NSIGHT_TABLE NSIGHT_INSERT
                    "(1000, 1291845632, 0, 1, 140000000000, 2097152, 2, 0, NULL, NULL, NULL),"
                    "(3000, 1291845632, 0, 1, 140000000000, 2097152, 2, 1, NULL, NULL, NULL),"
                    "(1500, 1291845632, 1, 2, 140000000000, 4096, 1, 0, NULL, NULL, NULL),"
                    "(1700, 1308622848, 1, 1, 140000000000, 300, 2, 0, 7, 33554432, 512),"
                    "(4000, 1291845632, 0, 1, 99, 1, 2, 1, NULL, NULL, NULL),"
                    "(5000, 1308622848, 1, 1, 140000000000, 400, 2, 0, 7, 33554432, 512)");
}

#endif
