#include "net/destinations.h"

#include <string.h>

#include "core/alloc.h"

ro_destination *
ro_destination_find(ro_destinations *destinations, const char *key)
{
    for (size_t i = 0; i < RO_NET_DESTINATIONS; i++) {
        ro_destination *destination = &destinations->items[i];
        if (destination->key != NULL && strcmp(destination->key, key) == 0) {
            return destination;
        }
    }
    return NULL;
}

ro_destination *
ro_destination_of(ro_destinations *destinations, const char *key)
{
    ro_destination *destination = ro_destination_find(destinations, key);

    if (destination != NULL) {
        return destination;
    }
    char *copy = ro_memdup(key, strlen(key));
    if (copy == NULL) {
        return NULL;
    }
    destination = &destinations->items[destinations->next];
    destinations->next = (destinations->next + 1) % RO_NET_DESTINATIONS;
    ro_free(destination->key);
    memset(destination, 0, sizeof(*destination));
    destination->key = copy;
    return destination;
}

void
ro_destinations_free(ro_destinations *destinations)
{
    for (size_t i = 0; i < RO_NET_DESTINATIONS; i++) {
        ro_free(destinations->items[i].key);
        destinations->items[i].key = NULL;
    }
}
