/* Remembers how the last RO_NET_DESTINATIONS destinations treat connections. A
 * destination is the text that requests must have in common to share one:
 * origin, proxy, trusted roots. Worker thread only.
 */
#ifndef RO_NET_DESTINATIONS_H
#define RO_NET_DESTINATIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "net/bounds.h"

typedef struct ro_destination {
    char *key;
    bool holds;  /* keeps streams open behind the answer */
    bool closes; /* a kept connection was found closed */
} ro_destination;

/* Zeroed is empty. */
typedef struct ro_destinations {
    ro_destination items[RO_NET_DESTINATIONS];
    size_t next; /* the one to be replaced next */
} ro_destinations;

/* NULL when nothing is remembered. */
ro_destination *ro_destination_find(ro_destinations *destinations,
                                    const char *key);
/* Found or made. NULL: out of memory; then the worker finds out anew what the
 * destination is like. */
ro_destination *ro_destination_of(ro_destinations *destinations,
                                  const char *key);
void ro_destinations_free(ro_destinations *destinations);

#endif
