/* A descriptor that is readable while something waits (an eventfd). Any
 * thread; nothing blocks. */
#ifndef RO_CORE_WAKE_H
#define RO_CORE_WAKE_H

/* Closed on exec; the caller closes it. -1 with errno set. */
int ro_wake_new(void);
/* Readable from now on. */
void ro_wake_raise(int fd);
/* No longer readable, until it is raised again. */
void ro_wake_lower(int fd);

#endif
