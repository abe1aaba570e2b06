/* A connection that is opened for a later request.
 *
 * libcurl keeps no connection that no request went out on, but one: that of
 * an upload which turns out to be complete before its first byte. So the
 * attempt asks to go on with an upload of one byte at its end. libcurl
 * connects (TCP, CONNECT, TLS), finds nothing to do and leaves the connection
 * open; not a byte of HTTP is sent. Worker thread only.
 */
#ifndef RO_NET_OPEN_H
#define RO_NET_OPEN_H

#include <curl/curl.h>
#include <stdbool.h>

/* Whether this libcurl uses such a connection later: from 8.0 on it closes one
 * on which TLS 1.3 has left its tickets. */
bool ro_open_is_possible(void);
/* False when libcurl refuses. */
bool ro_open_configure(CURL *easy);
/* Whether that is libcurl's word for an upload that was complete. */
bool ro_open_is_done(CURLcode code);

#endif
