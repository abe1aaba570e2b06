/* The outcome of the one call, as the wire said it. The first outcome is
 * kept, later ones are ignored.
 *
 * Every function may be called from any thread; one lock inside. The object
 * must outlive every session that uses it. Where nothing is called (the
 * audit) there is no record: NULL keeps nothing.
 */
#ifndef RO_MCP_RECORD_H
#define RO_MCP_RECORD_H

#include "core/envelope.h"
#include "core/slice.h"

typedef struct ro_record ro_record;

/* NULL: out of memory. */
ro_record *ro_record_new(void);
void ro_record_free(ro_record *record);

void ro_record_failure(ro_record *record, ro_code code);
/* structured is copied minified; len 0 when the server sent none. */
void ro_record_success(ro_record *record, ro_slice structured);
/* False while nothing is recorded. RO_CODE_OK is a success. */
bool ro_record_outcome(ro_record *record, ro_code *code);
/* The minified structuredContent of a recorded success; borrowed, stays
 * until the record is freed. len 0 when there was none. */
ro_slice ro_record_structured(ro_record *record);

#endif
