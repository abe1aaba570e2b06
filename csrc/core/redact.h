/* Takes secrets out of a JSON value, which stays the same JSON value.
 *
 * Every match inside a string or a key is replaced by RO_REDACTED where it
 * stands; matches that touch or overlap become one marker. The text is
 * matched unescaped, percent-decoded, with base64 in one alphabet, and all
 * of that again as the text of JSON inside the string. The marker replaces
 * the source from the first to the last character that matched. Every other
 * byte stays: the rest of that string with its escapes, every other string,
 * numbers, literals, white space.
 *
 * Numbers are never touched: a secret of digits that a server sends as a
 * number is a number. A secret split over several strings is no match.
 */
#ifndef RO_CORE_REDACT_H
#define RO_CORE_REDACT_H

#include "core/buf.h"
#include "core/secrets.h"
#include "core/slice.h"

#define RO_REDACTED "<redacted-secret>"

typedef enum ro_redact_code {
    RO_REDACT_OK = 0,
    RO_REDACT_KEYS_COLLIDE, /* two keys of one object became equal */
    RO_REDACT_TOO_LARGE,    /* out's max, or a value of 4 GiB */
    RO_REDACT_NO_MEMORY,
} ro_redact_code;

typedef struct ro_redact_rules {
    const ro_secrets *secrets; /* NULL: none */
    bool shapes;               /* also what core/shapes.h finds */
    /* Member names from the value downwards, ended by NULL. Under that path
     * secrets are replaced and shapes are not. NULL: there is no such path. */
    const char *const *attested;
} ro_redact_rules;

/* qualification.output_attestation of structured content. */
extern const char *const ro_redact_attestation[];

/* Appends the value to out. It must have passed ro_json_validate, duplicate
 * keys included; white space around it is kept. On failure out is as it
 * was. Linear in the value. Thread safe. */
ro_redact_code ro_redact(ro_slice value, const ro_redact_rules *rules,
                         ro_buf *out);

#endif
