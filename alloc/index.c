/* index.c - free blocks in order: a red-black tree whose nodes are the blocks.
 *
 * The usual rules (a red node has black children; every path from the root down has the same number
 * of black nodes) keep the height below 2 log2(n + 1). The key is read from the block, so it must
 * not change while the block is indexed. */
#include "alloc/core.h"

/* The order of blocks of one size, fixed when the block is inserted. */
static uint64_t rank(const mt_index *x, const mt_block *b) {
    switch (x->order) {
    case MT_ORDER_ADDRESS:
        return mt_block_vaddr(b);
    case MT_ORDER_BIRTH:
        return b->birth;
    default:
        return b->segment->number;
    }
}

static inline bool before(const mt_index *x, const mt_block *a, const mt_block *b) {
    if (a->stream != b->stream)
        return a->stream < b->stream;
    if (!x->by_address && a->size != b->size)
        return a->size < b->size;
    if (a->order != b->order)
        return a->order < b->order;
    return a->offset < b->offset;
}

static void replace_child(mt_index *x, mt_block *parent, mt_block *child, mt_block *with) {
    if (parent == NULL)
        x->root = with;
    else if (parent->left == child)
        parent->left = with;
    else
        parent->right = with;
    if (with != NULL)
        with->parent = parent;
}

static void rotate_left(mt_index *x, mt_block *n) {
    mt_block *up = n->right;
    replace_child(x, n->parent, n, up);
    n->right = up->left;
    if (n->right != NULL)
        n->right->parent = n;
    up->left = n;
    n->parent = up;
}

static void rotate_right(mt_index *x, mt_block *n) {
    mt_block *up = n->left;
    replace_child(x, n->parent, n, up);
    n->left = up->right;
    if (n->left != NULL)
        n->left->parent = n;
    up->right = n;
    n->parent = up;
}

static bool is_red(const mt_block *n) {
    return n != NULL && n->red;
}

/* After an insertion: a red node under a red parent moves up until it is none. */
static void repair_insert(mt_index *x, mt_block *n) {
    while (is_red(n->parent)) {
        mt_block *parent = n->parent, *grand = parent->parent;
        bool left = parent == grand->left;
        mt_block *uncle = left ? grand->right : grand->left;
        if (is_red(uncle)) {
            parent->red = uncle->red = false;
            grand->red = true;
            n = grand;
            continue;
        }
        if (n == (left ? parent->right : parent->left)) {
            (left ? rotate_left : rotate_right)(x, parent);
            parent = n;
        }
        parent->red = false;
        grand->red = true;
        (left ? rotate_right : rotate_left)(x, grand);
        break;
    }
    x->root->red = false;
}

void mt_index_insert(mt_index *x, mt_block *b) {
    mt_block *parent = NULL, *n = x->root;
    bool left = false;
    b->order = x->by_address ? mt_block_vaddr(b) : rank(x, b);
    while (n != NULL) {
        parent = n;
        left = before(x, b, n);
        n = left ? n->left : n->right;
    }
    b->parent = parent;
    b->left = b->right = NULL;
    b->red = true;
    if (parent == NULL)
        x->root = b;
    else if (left)
        parent->left = b;
    else
        parent->right = b;
    repair_insert(x, b);
    x->count++;
}

/* After a removal: the side of n (which may be NULL, under parent) lacks a black node. */
static void repair_remove(mt_index *x, mt_block *n, mt_block *parent) {
    while (n != x->root && !is_red(n)) {
        bool left = n == parent->left;
        mt_block *other = left ? parent->right : parent->left;
        if (is_red(other)) {
            other->red = false;
            parent->red = true;
            (left ? rotate_left : rotate_right)(x, parent);
            other = left ? parent->right : parent->left;
        }
        mt_block *near = left ? other->left : other->right;
        mt_block *far = left ? other->right : other->left;
        if (!is_red(near) && !is_red(far)) {
            other->red = true;
            n = parent;
            parent = n->parent;
            continue;
        }
        if (!is_red(far)) {
            near->red = false;
            other->red = true;
            (left ? rotate_right : rotate_left)(x, other);
            other = left ? parent->right : parent->left;
            far = left ? other->right : other->left;
        }
        other->red = parent->red;
        parent->red = false;
        far->red = false;
        (left ? rotate_left : rotate_right)(x, parent);
        break;
    }
    if (n != NULL)
        n->red = false;
}

/* Takes out a node with two children: its successor takes its place and colour. */
static void remove_inner(mt_index *x, mt_block *b) {
    mt_block *s = b->right;
    while (s->left != NULL)
        s = s->left;
    bool black = !s->red;
    mt_block *n = s->right, *parent = s->parent;
    if (parent == b) {
        parent = s;
    } else {
        replace_child(x, parent, s, n);
        s->right = b->right;
        s->right->parent = s;
    }
    replace_child(x, b->parent, b, s);
    s->left = b->left;
    s->left->parent = s;
    s->red = b->red;
    if (black)
        repair_remove(x, n, parent);
}

void mt_index_remove(mt_index *x, mt_block *b) {
    if (b->left != NULL && b->right != NULL) {
        remove_inner(x, b);
    } else {
        mt_block *n = b->left != NULL ? b->left : b->right;
        replace_child(x, b->parent, b, n);
        if (!b->red)
            repair_remove(x, n, b->parent);
    }
    x->count--;
}

mt_block *mt_index_first(const mt_index *x) {
    mt_block *n = x->root;
    while (n != NULL && n->left != NULL)
        n = n->left;
    return n;
}

mt_block *mt_index_last(const mt_index *x) {
    mt_block *n = x->root;
    while (n != NULL && n->right != NULL)
        n = n->right;
    return n;
}

mt_block *mt_index_next(const mt_block *b) {
    mt_block *n = b->right;
    if (n != NULL) {
        while (n->left != NULL)
            n = n->left;
        return n;
    }
    n = b->parent;
    while (n != NULL && b == n->right) {
        b = n;
        n = n->parent;
    }
    return n;
}

mt_block *mt_index_prev(const mt_block *b) {
    mt_block *n = b->left;
    if (n != NULL) {
        while (n->right != NULL)
            n = n->right;
        return n;
    }
    n = b->parent;
    while (n != NULL && b == n->left) {
        b = n;
        n = n->parent;
    }
    return n;
}

mt_block *mt_index_at_least(const mt_index *x, uint32_t stream, uint64_t size) {
    mt_block *n = x->root, *best = NULL;
    while (n != NULL) {
        bool below = n->stream != stream ? n->stream < stream : n->size < size;
        if (!below)
            best = n;
        n = below ? n->right : n->left;
    }
    return best;
}
