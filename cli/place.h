/* place.h - finds what comes with the program, wherever that was built or installed. */
#ifndef MT_CLI_PLACE_H
#define MT_CLI_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes into path where name lies: in the first of the folders, given from the program's own
 * folder
 * ("", "/../share/memtrace") and ended by NULL, that has it. False when none has. */
bool cli_place(char *path, size_t room, const char *const *folders, const char *name);

#endif
