#include "net/header_list.h"

#include <strings.h>

#include "core/alloc.h"

bool
ro_header_name_is(ro_slice name, const char *text)
{
    return name.len == strlen(text)
           && strncasecmp(name.ptr, text, name.len) == 0;
}

bool
ro_header_find(const ro_header *items, size_t count, const char *name,
               ro_slice *value)
{
    for (size_t i = 0; i < count; i++) {
        if (ro_header_name_is(items[i].name, name)) {
            *value = items[i].value;
            return true;
        }
    }
    return false;
}

size_t
ro_header_count(const ro_header *items, size_t count, const char *name)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        found += ro_header_name_is(items[i].name, name);
    }
    return found;
}

bool
ro_header_list_add(ro_header_list *list, ro_slice name, ro_slice value)
{
    if (list->count == list->cap) {
        size_t cap = list->cap == 0 ? 16 : list->cap * 2;
        ro_header *items = ro_realloc(list->items, cap * sizeof(*items));
        if (items == NULL) {
            return false;
        }
        list->items = items;
        list->cap = cap;
    }
    char *block = ro_malloc(name.len + value.len + 1);
    if (block == NULL) {
        return false;
    }
    if (name.len != 0) {
        memcpy(block, name.ptr, name.len);
    }
    if (value.len != 0) {
        memcpy(block + name.len, value.ptr, value.len);
    }
    list->items[list->count].name = ro_slice_of(block, name.len);
    list->items[list->count].value = ro_slice_of(block + name.len, value.len);
    list->count++;
    return true;
}

static void
drop_at(ro_header_list *list, size_t index)
{
    /* name.ptr is the start of the block that holds both */
    ro_free((void *)(size_t)list->items[index].name.ptr);
    list->count--;
    memmove(list->items + index, list->items + index + 1,
            (list->count - index) * sizeof(*list->items));
}

bool
ro_header_list_copy(ro_header_list *list, const ro_header *items, size_t count)
{
    size_t before = list->count;
    for (size_t i = 0; i < count; i++) {
        if (!ro_header_list_add(list, items[i].name, items[i].value)) {
            while (list->count > before) {
                drop_at(list, list->count - 1);
            }
            return false;
        }
    }
    return true;
}

static bool
same_name(ro_slice a, ro_slice b)
{
    return a.len == b.len && strncasecmp(a.ptr, b.ptr, a.len) == 0;
}

bool
ro_header_list_set(ro_header_list *list, ro_slice name, ro_slice value)
{
    /* Add first: out of memory leaves the list as it was. name and value may
     * be slices of a line that is dropped below. */
    size_t old = list->count;
    if (!ro_header_list_add(list, name, value)) {
        return false;
    }
    for (size_t i = old; i-- > 0;) {
        if (same_name(list->items[i].name, name)) {
            drop_at(list, i);
        }
    }
    return true;
}

void
ro_header_list_drop(ro_header_list *list, ro_slice name)
{
    for (size_t i = list->count; i-- > 0;) {
        if (same_name(list->items[i].name, name)) {
            drop_at(list, i);
        }
    }
}

void
ro_header_list_free(ro_header_list *list)
{
    while (list->count != 0) {
        drop_at(list, list->count - 1);
    }
    ro_free(list->items);
    list->items = NULL;
    list->cap = 0;
}
