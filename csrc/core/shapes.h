/* Finds what looks like a credential, whoever issued it.
 *
 * One table (in shapes.c) of prefixes, each with the alphabet of what
 * follows; a match needs a word boundary before the prefix and at least
 * RO_SHAPE_MIN characters behind it. Bearer and Basic keep their scheme
 * word; PEM private keys go from BEGIN to END, or to the end of the text.
 * tests/data/shapes holds what must and what must not match.
 */
#ifndef RO_CORE_SHAPES_H
#define RO_CORE_SHAPES_H

#include "core/slice.h"

/* characters: what must follow a prefix */
#define RO_SHAPE_MIN 16u

/* Calls found with text[first, end) of each match, ascending, disjoint.
 * Linear in the text. */
void ro_shapes_search(ro_slice text,
                      void (*found)(void *context, size_t first, size_t end),
                      void *context);

/* The prefixes of the table in its order, NULL behind the last. */
const char *ro_shapes_prefix(size_t index);

#ifdef RO_TEST_ALLOC
/* Of a test build: characters that this thread has looked at so far, the
 * measure of a search's work. */
size_t ro_shapes_looks(void);
#endif

#endif
