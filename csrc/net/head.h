/* A response head: reads it line by line and says what its fields mean. No
 * state but the reader. */
#ifndef RO_NET_HEAD_H
#define RO_NET_HEAD_H

#include "core/buf.h"
#include "net/net.h"

enum { /* content codings */
       RO_CODING_GZIP = 1,
       RO_CODING_DEFLATE = 2,
       RO_CODING_BR = 4,
       RO_CODING_ZSTD = 8,
       RO_CODING_ANY = 15,
};

/* A response head while it arrives. Zeroed is empty. */
typedef struct ro_head_reader {
    ro_buf text; /* reason, names and values of the current block */
    struct ro_field_at *fields_at; /* offsets, as text may still move */
    ro_header *fields;             /* once complete */
    size_t n_fields;
    size_t cap_fields;
    size_t total; /* bytes of all blocks so far */
    size_t reason_len;
    long status;
    int version;
    bool in_block; /* a status line was read */
    bool complete; /* the final head was read */
} ro_head_reader;

/* One line as it came, up to its LF; complete is set by the last one. */
ro_net_code ro_head_line(ro_head_reader *head, ro_slice line, size_t max);
/* A line that counts for max and is not kept. */
ro_net_code ro_head_count(ro_head_reader *head, ro_slice line, size_t max);
/* RO_NET_OK if the framing and the coding of a complete head can be trusted.
 */
ro_net_code ro_head_check(const ro_head_reader *head, unsigned codings,
                          bool raw);
/* Borrows from the reader. */
void ro_head_view(const ro_head_reader *head, ro_head *view);
void ro_head_free(ro_head_reader *head);
/* Content codings that a field value names, with q above 0. */
unsigned ro_codings_of(ro_slice accept);
bool ro_is_token(ro_slice text);
bool ro_name_is(ro_slice name, const char *lower);

#endif
