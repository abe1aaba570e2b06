/* Rows of a table by the value of an enum, which a caller may have got from
 * anywhere. */
#ifndef RO_CORE_TABLE_H
#define RO_CORE_TABLE_H

#include <stddef.h>

/* The row of a value: its own, or `otherwise` for one outside the table. */
static inline size_t
ro_row(unsigned value, size_t count, size_t otherwise)
{
    return value < count ? value : otherwise;
}

#endif
