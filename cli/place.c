/* place.c - see place.h. The program's own folder is asked of the kernel, so that neither the
 * current folder nor PATH matters. */
#include "cli/place.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* False when the system does not say. */
static bool program_folder(char *folder, size_t room) {
    ssize_t n = readlink("/proc/self/exe", folder, room - 1);
    if (n <= 0)
        return false;
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

bool cli_place(char *path, size_t room, const char *const *folders, const char *name) {
    char own[PATH_MAX];
    if (!program_folder(own, sizeof own))
        return false;
    for (; *folders != NULL; folders++) {
        int n = snprintf(path, room, "%s%s/%s", own, *folders, name);
        if (n > 0 && (size_t)n < room && access(path, R_OK) == 0)
            return true;
    }
    return false;
}
