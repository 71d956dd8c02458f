/* tokenizer.h - GPT-2's byte-level BPE: text to ids and back.
 *
 * Encoding splits the text by the GPT-2 pattern (PCRE2, Unicode properties), turns each piece's
 * bytes into symbols and merges pairs by rank. Any byte string encodes and decode(encode(x)) = x: a
 * byte that is not part of valid UTF-8 counts as one character that is neither letter, number nor
 * space. Special text such as <|endoftext|> is not special. */
#ifndef MT_ENGINE_TEXT_TOKENIZER_H
#define MT_ENGINE_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mt_tokenizer mt_tokenizer;

/* Reads vocab.json (or encoder.json) and merges.txt (or vocab.bpe), given by their paths. Both are
 * checked in full: a file that is missing, or that a tokenizer cannot be made of, is bad input. */
mt_status mt_tokenizer_open(mt_tokenizer **out, const char *vocab, const char *merges,
                            mt_error *err);

/* The same from a Hugging Face folder: FOLDER/vocab.json and FOLDER/merges.txt; when neither is
 * there, encoder.json and vocab.bpe. */
mt_status mt_tokenizer_open_folder(mt_tokenizer **out, const char *folder, mt_error *err);

/* Ids of n bytes of text, in *ids (free() it), *count of them. t is not changed. */
mt_status mt_tokenizer_encode(mt_tokenizer *t, const char *text, size_t n, int32_t **ids,
                              size_t *count, mt_error *err);

/* Bytes of count ids, in *text (free() it; a 0 follows the n bytes). An id without a token is bad
 * input; the message names it and its place. */
mt_status mt_tokenizer_decode(const mt_tokenizer *t, const int32_t *ids, size_t count, char **text,
                              size_t *n, mt_error *err);

size_t mt_tokenizer_size(const mt_tokenizer *t);         /* largest id + 1: 50257 */
int32_t mt_tokenizer_end_of_text(const mt_tokenizer *t); /* id of <|endoftext|>, -1 if none */

void mt_tokenizer_close(mt_tokenizer *t); /* NULL is allowed */

#endif
