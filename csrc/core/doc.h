/* The one file that calls cJSON.
 *
 * It reads only documents that the scanner has passed. Thread safe: cJSON's
 * parser writes a global of the library, so parsing holds doc.c's lock, which
 * nothing else takes and under which nothing is called but cJSON.
 */
#ifndef RO_CORE_DOC_H
#define RO_CORE_DOC_H

#include "core/slice.h"

typedef enum ro_doc_code {
    RO_DOC_OK = 0,
    RO_DOC_REFUSED, /* cJSON does not see an object */
    RO_DOC_NO_MEMORY,
} ro_doc_code;

typedef enum ro_doc_value {
    RO_DOC_ABSENT = 0,
    RO_DOC_FALSE,
    RO_DOC_TRUE,
    RO_DOC_OTHER,
} ro_doc_value;

/* What cJSON reads under each of names (exact case) in a valid flat object
 * of literals, whose keys hold no NUL (cJSON ends a key there and would take
 * it for another). values has room for count. cJSON does not tell why it
 * refuses; of such an object there is nothing to refuse but memory. */
ro_doc_code ro_doc_lookup(ro_slice object, const char *const *names,
                          size_t count, ro_doc_value *values);

#ifdef RO_TEST_ALLOC
/* cJSON's memory through core/alloc.h; once, before any other call. */
void ro_doc_use_alloc(void);
#endif

#endif
