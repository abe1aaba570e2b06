/* URLs that a peer names: resolved, and held to the origin they came from.
 * No state; any thread. Results are for ro_free.
 */
#ifndef RO_NET_LOCATION_H
#define RO_NET_LOCATION_H

#include "core/slice.h"

/* text, an absolute or relative URL, as an absolute one without fragment on
 * base's origin. NULL: another origin, user info, no URL, or out of memory. */
char *ro_location_resolve(const char *base, ro_slice text);

#endif
