/* curve.c - see curve.h. */
#include "traces/curve.h"

static bool higher(const mt_point *a, const mt_point *b) {
    uint64_t x = mt_point_reserved(a), y = mt_point_reserved(b);
    return x != y ? x > y : a->requested > b->requested;
}

/* Two windows become one. */
static void widen(mt_curve *c) {
    mt_point *p = c->point.at;
    size_t n = 0;
    for (size_t i = 0; i < c->point.count; i += 2, n++)
        p[n] = i + 1 < c->point.count && higher(&p[i + 1], &p[i]) ? p[i + 1] : p[i];
    c->point.count = n;
    c->window *= 2;
}

static mt_status add_point(mt_curve *c, const mt_point *now, mt_error *err) {
    if (c->point.count == c->most)
        widen(c);
    mt_point *p = mt_array_push(&c->point);
    if (p == NULL)
        return mt_no_memory(err, "a curve of memory");
    *p = *now;
    c->events = 0;
    return MT_OK;
}

mt_status mt_curve_event(mt_curve *c, const mt_event *e, uint64_t time, mt_error *err) {
    const mt_ledger *l = &c->ledger;
    if (c->most == 0)
        c->most = MT_CURVE_POINTS;
    if (c->window == 0)
        c->window = 1;
    MT_TRY(mt_ledger_apply(&c->ledger, e, err));
    const mt_point now = { time, l->requested.current, l->rounding, l->split, l->cached };
    if (c->point.count == 0 || c->events == c->window)
        MT_TRY(add_point(c, &now, err));
    mt_point *last = &c->point.at[c->point.count - 1];
    if (higher(&now, last))
        *last = now;
    c->events++;
    return MT_OK;
}

void mt_curve_free(mt_curve *c) {
    mt_ledger_free(&c->ledger);
    mt_array_free(&c->point);
}
