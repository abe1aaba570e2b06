/* libcurl's set-up for the whole process.
 *
 * It opens the file that SSLKEYLOGFILE names, for good, while it is set up.
 * The variable is made empty for that moment by replacing one pointer in
 * environ: no string is freed or moved, so a getenv in another thread sees
 * either text. (A libcurl that somebody else in the process has set up
 * before has read the variable already.)
 *
 * Nothing is ever cleaned up: a resolver thread that was left behind may
 * still be inside the library.
 */
#include "net/internal.h"

#include <unistd.h>

static char **
find(const char *prefix)
{
    size_t len = strlen(prefix);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, prefix, len) == 0) {
            return entry;
        }
    }
    return NULL;
}

static void
replace(char *from, char *to)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (*entry == from) {
            __atomic_store_n(entry, to, __ATOMIC_RELEASE);
            return;
        }
    }
}

bool
ro_net_global_init(void)
{
    static char none[] = "SSLKEYLOGFILE=";
    char **entry = find(none);
    char *set = entry != NULL ? *entry : NULL;

    if (set != NULL && set != none) {
        replace(set, none);
    }
    bool ok = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    if (set != NULL && set != none) {
        replace(none, set);
    }
    return ok;
}

const char *
ro_net_library(void)
{
    return ro_net_global_init() ? curl_version() : NULL;
}
