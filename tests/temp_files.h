/* temp_files.h - a folder of its own for a test program that needs files, gone at its end. */
#ifndef MT_TESTS_TEMP_FILES_H
#define MT_TESTS_TEMP_FILES_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The folder; "" before temp_setup. */
static char temp_folder[64];

/* Group setup for cmocka. */
static inline int temp_setup(void **state) {
    (void)state;
    strcpy(temp_folder, "/tmp/memtrace-test-XXXXXX");
    return mkdtemp(temp_folder) == NULL;
}

static inline int temp_remove_one(const char *path, const struct stat *info, int type,
                                  struct FTW *place) {
    (void)info, (void)type, (void)place;
    return remove(path);
}

/* Group teardown for cmocka. */
static inline int temp_teardown(void **state) {
    (void)state;
    return nftw(temp_folder, temp_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The path of a name in the folder; valid until four calls later. */
static inline const char *temp_path(const char *name) {
    static char paths[4][160];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", temp_folder, name);
    return path;
}

/* Writes a file and returns its path; ends the program if that fails. An old file of that name is
 * removed, not shortened: some file systems write a shortened file to the disk at once. */
static inline const char *temp_write(const char *name, const void *data, size_t n) {
    const char *path = temp_path(name);
    (void)remove(path);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

#endif
