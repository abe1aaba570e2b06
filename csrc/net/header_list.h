/* An owned list of header lines, names compared without case.
 *
 * Not thread safe. A zeroed list is empty and may be freed.
 */
#ifndef RO_NET_HEADER_LIST_H
#define RO_NET_HEADER_LIST_H

#include "net/net.h"

typedef struct ro_header_list {
    ro_header *items; /* slices into blocks that the list owns */
    size_t count;
    size_t cap;
} ro_header_list;

/* All of these return false when out of memory and leave the list as it
 * was. */
bool ro_header_list_add(ro_header_list *list, ro_slice name, ro_slice value);
bool ro_header_list_copy(ro_header_list *list, const ro_header *items,
                         size_t count);
/* Replace every line of that name by one. */
bool ro_header_list_set(ro_header_list *list, ro_slice name, ro_slice value);
void ro_header_list_drop(ro_header_list *list, ro_slice name);
void ro_header_list_free(ro_header_list *list);

bool ro_header_name_is(ro_slice name, const char *text);
/* The first line of that name; false when there is none. */
bool ro_header_find(const ro_header *items, size_t count, const char *name,
                    ro_slice *value);
/* Lines of that name. */
size_t ro_header_count(const ro_header *items, size_t count, const char *name);

#endif
