/* columns.h - lines of columns, as readers of text cut and read them. */
#ifndef MT_TRACES_COLUMNS_H
#define MT_TRACES_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

/* Cuts a line into columns, most of them kept; returns how many there are. */
int mt_cut(char *line, char separator, char **column, int most);

/* Whether the whole text is a number in decimal digits, of 64 and of 32 bits. */
bool mt_column(const char *text, uint64_t *value);
bool mt_column32(const char *text, uint32_t *value);

/* An address or a handle: hexadecimal digits behind 0x, (nil), 0. */
bool mt_column_pointer(const char *text, uint64_t *value);

#endif
