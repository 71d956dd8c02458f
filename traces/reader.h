/* reader.h - recordings: what a program asked of an allocator, and what that allocator did, read
 * from a file of any known format one item at a time.
 *
 *     mt_reader *r;
 *     mt_item item;
 *     MT_TRY(mt_reader_open(&r, path, err));
 *     do
 *         status = mt_reader_next(r, &item, err);
 *     while (status == MT_OK && item.kind != MT_ITEM_END);
 *     mt_reader_close(r);
 *
 * The path names a file or a pipe; - is standard input. gzip and zstd are decompressed, and the
 * first bytes tell the format. A reader goes through its file once and keeps only what is live at
 * that point: memory grows neither with the length of the file nor with a number in it.
 *
 * Items come in the order of the file. Operations are what the program did; any allocator can be
 * asked to do the same (replay.h). Facts are what the recorded allocator did or was; they can be
 * compared (check.h) and reported. Code that has no use for a kind of item ignores it, so kinds may
 * be added.
 *
 * What a reader guarantees: an id is requested once while it is live, and freed once; sizes are not
 * 0; numbers fit their fields. A file that breaks this, or the rules of its format, is MT_BAD with
 * "path:line: " and what was expected there.
 *
 * To add a format:
 *
 *   1. Write traces/read_NAME.c: the format, to the byte, in the comment on top; a struct that
 *      begins with an mt_reader; an mt_format (below), of which `next` is the work.
 *   2. Enter the mt_format in the list in formats.c, in the order of detection.
 *   3. Add a small sample to tests/test_reader.c, which reads every sample whole, from a pipe,
 *      compressed, cut at every byte, and with bytes changed at random.
 *
 * `next` gets an item that tells nothing (kind MT_ITEM_END, id and live "none", layer -1, tag
 * MT_OTHER, the rest up to `refused` zero) and sets what its file tells. What only a new format
 * tells becomes a new field of mt_item whose zero means "not told": the other readers stay as they
 * are. Text is read with mt_reader_line, binary data with mt_input_some (base/input.h); what cannot
 * be read in one pass (a database) is opened by its name in the first call. Requests that were live
 * when the recording began come as a snapshot before the first operation, with the ids that later
 * frees name. */
#ifndef MT_TRACES_READER_H
#define MT_TRACES_READER_H

#include <string.h>

#include "alloc/events.h"
#include "base/input.h"
#include "traces/calls.h"
#include "traces/numbers.h"

/* ---- items ----------------------------------------------------------------------------------- */

typedef enum mt_item_kind {
    MT_ITEM_END,   /* the file is done */
    MT_ITEM_NOTE,  /* a header or comment line: text */
    MT_ITEM_STACK, /* a call stack, before an item names it: stack = its number, from 1 and rising
                      by 1; id = that of its caller, 0: none; text = its innermost frame */

    /* Operations. */
    MT_ITEM_ALLOC, /* a request: id, live, bytes, stream, layer, tag */
    MT_ITEM_FREE,  /* of a request: id, live */
    MT_ITEM_USE,   /* of a request's memory by another stream: id, live, stream */
    MT_ITEM_TRIM,  /* empty_cache */
    MT_ITEM_HOLD,  /* from here on no stream's work finishes */
    MT_ITEM_GO,    /* all of it finishes */
    MT_ITEM_MARK,  /* a step ended: ctx, kv_ideal */

    /* Facts. */
    MT_ITEM_EVENT,     /* one that no operation stands for (of segments, oom): event */
    MT_ITEM_SNAPSHOT,  /* every block's state follows: bytes = how many blocks */
    MT_ITEM_BLOCK,     /* one of them: segment, offset, rounded, bytes, state, pool, stream */
    MT_ITEM_STATISTIC, /* text = PyTorch's key, value */
    MT_ITEM_HISTORY    /* an entry of PyTorch's memory history: history */
} mt_item_kind;

/* What is told beside an operation: bits of mt_item.has. */
enum {
    MT_HAS_PLACE = 1,    /* of ALLOC: refused, or segment, offset, rounded */
    MT_HAS_ROUNDED = 2,  /* the place's rounded too */
    MT_HAS_CALLS = 4,    /* calls: the driver calls that it made */
    MT_HAS_COUNTERS = 8, /* counter, count, counters: their values after it */
    MT_HAS_EVENT = 16    /* event: the allocator's own, with all its fields */
};

/* A counter that a format records: its name there, and where it stands in mt_torch_stats. */
typedef struct mt_counter {
    const char *name;
    size_t at;
} mt_counter;

/* What PyTorch's memory history tells of. */
typedef enum mt_action {
    MT_ACTION_ALLOC,
    MT_ACTION_FREE_REQUESTED,
    MT_ACTION_FREE_COMPLETED,
    MT_ACTION_SEGMENT_ALLOC,
    MT_ACTION_SEGMENT_FREE,
    MT_ACTION_SEGMENT_MAP,
    MT_ACTION_SEGMENT_UNMAP,
    MT_ACTION_OOM,
    MT_ACTIONS
} mt_action;

typedef struct mt_history {
    uint64_t offset; /* oom: free bytes of the device */
    uint64_t bytes;
    uint32_t segment; /* oom: 0 */
    uint32_t action;  /* mt_action */
} mt_history;

const char *mt_action_name(mt_action action); /* PyTorch's word: "free_requested" */

/* What the history calls an event of ours; not of a mark, which it does not know. */
mt_action mt_action_of(mt_event_kind kind);

#define MT_NO_LIVE MT_NO_NUMBER

/* Pointers are good until the next call of mt_reader_next. */
typedef struct mt_item {
    mt_item_kind kind;
    uint32_t has;
    uint64_t line; /* where it stands; in a binary format the number of its record */

    /* Operations. */
    uint64_t id;   /* as the file names the request; of one request only while that is live */
    uint32_t live; /* the request's number while it is live, small and used again later: an index.
                      MT_NO_LIVE: it was requested before the recording began */
    uint32_t stream;
    uint64_t bytes; /* requested */
    int32_t layer;  /* -1: none */
    uint8_t tag;
    uint64_t ctx, kv_ideal;

    /* Of operations and facts, where a format tells it; 0: not told. */
    uint32_t device;          /* number of the device */
    uint32_t private_pool;    /* PyTorch's; 0: the default pools */
    uint32_t stack;           /* number of the call stack, from 1 */
    uint32_t thread, process; /* as the operating system numbers them */
    bool host;                /* host memory, not the device's */
    uint64_t time_ns;         /* since the first item that has one */

    bool refused; /* ALLOC: the recorded allocator had no memory for it */

    /* Facts: set where kind or has says so, else of no meaning. */
    uint32_t segment;
    uint64_t offset, rounded;
    const char *state, *pool; /* in PyTorch's words: active_allocated, large */
    const mt_calls *calls;
    const mt_counter *counter; /* [counters] */
    const uint64_t *count;     /* [counters] */
    size_t counters;
    const mt_event *event;
    mt_history history;
    const char *text;
    int64_t value;
} mt_item;

/* Makes an item that tells nothing: see above. */
static inline void mt_item_clear(mt_item *item) {
    memset(item, 0, offsetof(mt_item, segment));
    item->id = MT_NO_ID;
    item->live = MT_NO_LIVE;
    item->layer = -1;
    item->tag = MT_OTHER;
}

/* Sets what an event tells of an item that tells nothing; the event must outlive it. */
void mt_item_tell(mt_item *item, const mt_event *e);

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct mt_reader mt_reader;
typedef struct mt_format mt_format;

/* How the recorded allocator was set up, as far as the file tells; complete from the first item on
 * that is no note. */
typedef struct mt_settings {
    char *policy;      /* for mt_alloc_open; NULL: not told */
    uint64_t capacity; /* of the device; 0: not told */
    bool timed;        /* items have their times */
} mt_settings;

/* MT_BAD when there is no such file, or none of a known format. */
mt_status mt_reader_open(mt_reader **out, const char *path, mt_error *err);

/* How a file is to be read; all zero: as mt_reader_open does. */
typedef struct mt_reading {
    const mt_format *format; /* NULL: its first bytes tell */
    uint64_t most;           /* bytes of text in a compressed file; 0: MT_READING_MOST */
} mt_reading;

#define MT_READING_MOST ((uint64_t)64 << 30)

/* how may be NULL. */
mt_status mt_reader_open_as(mt_reader **out, const char *path, const mt_reading *how,
                            mt_error *err);

/* The format of that word ("rmm"); NULL when there is none. */
const mt_format *mt_format_find(const char *word);

/* After a failure, or the end, the reader can only be closed. */
mt_status mt_reader_next(mt_reader *r, mt_item *item, mt_error *err);
void mt_reader_close(mt_reader *r); /* NULL is allowed */

/* A failure that belongs to a line of the file: "path:line: " and the text. */
mt_status mt_reader_fail(const mt_reader *r, uint64_t line, mt_status status, mt_error *err,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- formats --------------------------------------------------------------------------------- */

/* What recordings of a format can tell besides operations. */
enum {
    MT_TELLS_SETTINGS = 1,   /* the policy's options, the device's bytes */
    MT_TELLS_PLACES = 2,     /* MT_HAS_PLACE */
    MT_TELLS_CALLS = 4,      /* MT_HAS_CALLS */
    MT_TELLS_COUNTERS = 8,   /* MT_HAS_COUNTERS, MT_ITEM_STATISTIC */
    MT_TELLS_EVENTS = 16,    /* MT_HAS_EVENT, MT_ITEM_EVENT */
    MT_TELLS_SNAPSHOTS = 32, /* MT_ITEM_SNAPSHOT, MT_ITEM_BLOCK */
    MT_TELLS_HISTORY = 64,   /* MT_ITEM_HISTORY */
    MT_TELLS_CONTEXT = 128,  /* devices, private pools, call stacks, threads, processes */

    /* What most formats tell. Of a file that does not, the matter is unknown, not zero. */
    MT_TELLS_REQUESTED = 256, /* the bytes that were asked for, not those of a block */
    MT_TELLS_RESERVED = 512,  /* what the recorded allocator had of the device */
    MT_TELLS_FREES = 1024,    /* which request was freed when */
    MT_TELLS_STREAMS = 2048,  /* on which stream */
    MT_TELLS_MOST = MT_TELLS_REQUESTED | MT_TELLS_RESERVED | MT_TELLS_FREES | MT_TELLS_STREAMS
};

/* Writes what the file that is being read does not tell of MT_TELLS_MOST, as words with commas
 * between them, known once it is read; "" when it tells all of it. Returns buffer. */
#define MT_LACKS 160
char *mt_reader_lacks(const mt_reader *r, char buffer[static MT_LACKS]);

struct mt_format {
    const char *word;  /* for people who say it themselves: "trace" */
    const char *name;  /* in a message: "a memtrace trace" */
    unsigned tells;    /* MT_TELLS_... */
    const char *calls; /* the kinds of driver calls that are recorded, see calls.h */

    /* Whether a file that begins with these bytes, all of it or its first MT_PEEK, is one. */
    bool (*detect)(const char *data, size_t n);

    size_t size; /* of its struct, which is all zero at first but for the mt_reader */
    mt_status (*next)(mt_reader *r, mt_item *item, mt_error *err);
    void (*close)(mt_reader *r); /* frees what next has left in the struct behind the mt_reader */
};

/* The list, ended by NULL. */
extern const mt_format *const mt_formats[];
extern const mt_format mt_format_trace, mt_format_mtb, mt_format_recording, mt_format_schedule;
extern const mt_format mt_format_rmm, mt_format_stalloc, mt_format_minimalloc;
extern const mt_format mt_format_allocatorsim, mt_format_chrome, mt_format_pprof, mt_format_nsight;

/* ---- for the readers of formats -------------------------------------------------------------- */

#define MT_PEEK 4096
#define MT_LINE (((size_t)64 << 10) - 1) /* characters of a line at most */

/* What every reader's struct begins with. */
struct mt_reader {
    const mt_format *format;
    unsigned tells; /* the format's, less what this file turns out not to tell */
    mt_input *in;
    mt_settings settings;
    mt_numbers live; /* ids of live requests */
    uint64_t line;   /* of the latest line, from 1; a binary format counts its records here */
    bool begun;      /* an item that is no note was told: the settings are complete */
    bool cut;        /* that line ended with the file, not with a newline */
};

/* The next line, without its newline, which the caller may change; NULL at the end. */
mt_status mt_reader_line(mt_reader *r, char **line, mt_error *err);

/* MT_BAD at the latest line; the text says what was found and what was expected. */
mt_status mt_reader_bad(const mt_reader *r, mt_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets item->live of a request (refused when item->id is live already), and of a free. */
mt_status mt_reader_request(mt_reader *r, mt_item *item, mt_error *err);
void mt_reader_release(mt_reader *r, mt_item *item);

/* The same for a request or free (item->kind) of an address in one of several spaces of addresses
 * (devices, processes), each known by its number: sets item->id too. A request of an address that
 * is live becomes the free that nobody recorded, and *again true: the request is to be made again.
 * pages is for what this keeps. */
mt_status mt_reader_address(mt_reader *r, mt_numbers *pages, uint32_t space, uint64_t address,
                            mt_item *item, bool *again, mt_error *err);

/* Adds an option to the recorded policy: key and the text up to one of stop. Nothing, or -, is
 * none. */
mt_status mt_reader_option(mt_reader *r, const char *key, const char *text, const char *stop,
                           mt_error *err);

/* Takes the device's bytes, as text, for the settings. */
mt_status mt_reader_capacity(mt_reader *r, const char *text, mt_error *err);

#endif
