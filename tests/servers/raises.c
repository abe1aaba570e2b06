/* Preloaded: raises the signal RO_RAISES once, in the moment in which the
 * guard has taken standard output and its handlers do not stand yet.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int
dup2(int from, int to)
{
    static int raised;
    int (*real)(int, int);
    const char *number = getenv("RO_RAISES");

    *(void **)&real = dlsym(RTLD_NEXT, "dup2");
    int pointed = real(from, to);
    if (to == 1 && number != NULL && !raised++) {
        raise(atoi(number));
    }
    return pointed;
}
