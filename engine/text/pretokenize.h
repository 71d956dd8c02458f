/* pretokenize.h - the first step of the tokenizer: text is cut into pieces by GPT-2's pattern.
 *
 * A piece is a contraction ('s 't 're 've 'm 'll 'd), or letters, numbers or symbols with at most
 * one space before them, or white space. No merge crosses the end of a piece. */
#ifndef MT_ENGINE_TEXT_PRETOKENIZE_H
#define MT_ENGINE_TEXT_PRETOKENIZE_H

#include <stddef.h>

#include "base/status.h"

typedef struct mt_splitter mt_splitter; /* the compiled pattern; splitting does not change it */
typedef struct mt_pieces mt_pieces;     /* one text on its way through it */

mt_status mt_splitter_open(mt_splitter **out, mt_error *err);
void mt_splitter_close(mt_splitter *s); /* NULL is allowed */

/* Begins with n bytes of text, of which a copy is made. s must outlive *out. */
mt_status mt_pieces_open(mt_pieces **out, const mt_splitter *s, const char *text, size_t n,
                         mt_error *err);

/* Where the next piece ends; it begins where the one before ended, the first at 0. The last ends
 * at n: the caller stops there. */
mt_status mt_pieces_next(mt_pieces *p, size_t *end, mt_error *err);

void mt_pieces_close(mt_pieces *p); /* NULL is allowed */

#endif
