/* recordings.h - the recordings of PyTorch that tests read: those of tests/recordings, and those in
 * MEMTRACE_SHARED/golden (../shared if unset) where there are any. */
#ifndef TESTS_RECORDINGS_H
#define TESTS_RECORDINGS_H

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

typedef void visit_recording(const char *path, void *context);

/* Visits each step-th file that fits a pattern, in order of names. Returns how many fit. */
static int visit_matches(const char *pattern, int step, visit_recording *visit, void *context) {
    glob_t found;
    if (glob(pattern, GLOB_BRACE, NULL, &found) != 0)
        return 0;
    int n = (int)found.gl_pathc;
    for (int i = 0; i < n; i += step)
        visit(found.gl_pathv[i], context);
    globfree(&found);
    return n;
}

/* Visits the files that fit a pattern in tests/recordings, and those that fit another among the
 * shared ones; each step-th in a hurry (MEMTRACE_QUICK). Returns how many of ours fit. */
static int for_recordings(const char *ours, const char *shared, int step, visit_recording *visit,
                          void *context) {
    char pattern[1024];
    const char *folder = getenv("MEMTRACE_SHARED");
    if (getenv("MEMTRACE_QUICK") == NULL)
        step = 1;
    snprintf(pattern, sizeof pattern, "%s/golden/%s",
             folder != NULL && *folder != '\0' ? folder : "../shared", shared);
    visit_matches(pattern, step, visit, context);
    snprintf(pattern, sizeof pattern, "tests/recordings/%s", ours);
    return visit_matches(pattern, step, visit, context);
}

#endif
