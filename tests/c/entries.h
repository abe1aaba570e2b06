/* What a directory of /proc counts of this process. */
#ifndef RO_TEST_ENTRIES_H
#define RO_TEST_ENTRIES_H

#include <dirent.h>
#include <stddef.h>

static inline size_t
entries(const char *path)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return count;
}

/* The same number of others each time: the one that reads them, . and .. */
static inline size_t
open_descriptors(void)
{
    return entries("/proc/self/fd");
}

#endif
