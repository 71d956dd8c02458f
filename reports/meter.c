/* meter.c - see meter.h. A listener that reads the allocator's own ledger after each event. */
#include "reports/meter.h"

#include <stdlib.h>
#include <string.h>

static void on_request(mt_meter *m) {
    const mt_ledger *l = m->ledger;
    uint64_t reserved = l->reserved.current, requested = l->requested.current;
    if (reserved < m->now.peak_reserved ||
        (reserved == m->now.peak_reserved && requested <= m->at_peak))
        return;
    m->now.peak_reserved = reserved;
    m->at_peak = requested;
    m->rounded = requested + l->rounding;
    m->now.rounding = l->rounding;
    m->now.split = l->split;
    m->now.cached = l->cached;
}

static void note(int64_t value, int64_t *largest) {
    if (llabs(value) > llabs(*largest))
        *largest = value;
}

/* Steps: a bump is counted from step 0 on, a change from one token to the next from step 1 on. */
static void on_mark(mt_meter *m, const mt_event *e) {
    uint64_t reserved = m->ledger->reserved.current, kv = m->ledger->tag[MT_KV].current;
    int64_t change = (int64_t)(reserved - m->before_reserved);
    int64_t bump = change == 0 ? 0 : change - (int64_t)(kv - m->before_kv);
    if (e->step >= 0 && bump != 0) {
        m->now.bumps++;
        note(bump, &m->now.bump_largest);
    }
    if (e->step >= 1) {
        m->changes++;
        m->change_sum += (double)llabs(change);
        note(change, &m->now.change_largest);
    }
    m->before_reserved = reserved;
    m->before_kv = kv;
}

static void on_event(void *context, const mt_event *e) {
    if (e->kind == MT_EV_ALLOC)
        on_request(context);
    else if (e->kind == MT_EV_MARK)
        on_mark(context, e);
}

void mt_meter_start(mt_meter *m, mt_alloc *a) {
    memset(m, 0, sizeof *m);
    m->alloc = a;
    m->ledger = mt_alloc_ledger(a);
    mt_alloc_listen(a, (mt_listener){ on_event, m });
}

static double part(uint64_t a, uint64_t b) {
    return b == 0 ? 0 : (double)a / (double)b;
}

void mt_meter_read(const mt_meter *m, mt_meter_row *row) {
    const mt_ledger *l = m->ledger;
    uint64_t free_bytes = l->split + l->cached;
    *row = m->now;
    row->peak_requested = l->requested.peak;
    row->peak_reserved = l->reserved.peak;
    row->reserved = l->reserved.current;
    row->calls = l->segment_events;
    row->change_mean = m->changes == 0 ? 0 : m->change_sum / (double)m->changes;
    row->unused = 1 - part(m->at_peak, row->peak_reserved);
    row->internal = part(row->rounding, m->rounded);
    row->external = free_bytes == 0 ? 0 : 1 - part(mt_alloc_largest_free(m->alloc), free_bytes);
}
