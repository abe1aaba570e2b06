/* The coverage build alone: a process that ends without exit() writes what it
 * has counted first. The linker puts these before the real ones (ctest.mk). */
#include <signal.h>
#include <unistd.h>

/* What gcc's -fprofile-arcs brings. */
void __gcov_dump(void);
void __gcov_reset(void);

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);
int __real_raise(int number);
int __wrap_raise(int number);

/* Zeroed after it is written: a child of vfork shares the counts. */
static void
write_counts(void)
{
    __gcov_dump();
    __gcov_reset();
}

void
__wrap__exit(int status)
{
    write_counts();
    __real__exit(status);
}

int
__wrap_raise(int number)
{
    write_counts();
    return __real_raise(number);
}
