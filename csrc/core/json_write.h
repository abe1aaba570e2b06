/* JSON text, appended to a buffer: the one way in which documents are
 * printed.
 *
 * A writer appends until the first failure, which it keeps: what is written
 * after that is nothing, so callers look at the end alone. Commas are the
 * writer's; brackets and keys come in pairs by the caller's care. Not thread
 * safe; one owner.
 */
#ifndef RO_CORE_JSON_WRITE_H
#define RO_CORE_JSON_WRITE_H

#include "core/buf.h"
#include "core/slice.h"

typedef struct ro_writer {
    ro_buf *out;
    size_t start; /* out's length before the first byte */
    ro_buf_code code;
} ro_writer;

/* Borrows out, which is the writer's alone until ro_write_done. */
ro_writer ro_writer_of(ro_buf *out);
/* How it went. Unless RO_BUF_OK, out is as it was. */
ro_buf_code ro_write_done(ro_writer *to);

/* One of { [ and one of } ]. */
void ro_write_open(ro_writer *to, char bracket);
void ro_write_close(ro_writer *to, char bracket);
/* The key of the member whose value comes next; name needs no escape. */
void ro_write_key(ro_writer *to, const char *name);
/* A valid value or raw key, byte for byte. */
void ro_write_raw(ro_writer *to, ro_slice value);
/* A valid value, token for token, white space between tokens removed. */
void ro_write_minified(ro_writer *to, ro_slice value);
/* A quoted string of valid UTF-8: ASCII only, lower-case \uxxxx (surrogate
 * pairs above U+FFFF), short escapes for \" \\ \b \f \n \r \t. */
void ro_write_string(ro_writer *to, ro_slice utf8);
/* A valid value, its characters beyond ASCII written as in a string, every
 * other byte as it stands. */
void ro_write_ascii(ro_writer *to, ro_slice value);
void ro_write_int(ro_writer *to, int number);
/* A key and its value: raw, or text that becomes a string. */
void ro_write_member(ro_writer *to, const char *name, ro_slice value);
void ro_write_member_text(ro_writer *to, const char *name, const char *text);

/* ---- parts of documents that are there ---- */

/* Bytes as they are, and no comma. */
void ro_write_span(ro_writer *to, ro_slice bytes);
/* The comma that the next value needs, if it needs one. */
void ro_write_comma(ro_writer *to);

#endif
