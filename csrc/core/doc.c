#include "core/doc.h"

#include <cjson/cJSON.h>
#include <pthread.h>

#include "core/alloc.h"

/* Guards the error position that every cJSON parse writes. */
static pthread_mutex_t cjson_parse_lock = PTHREAD_MUTEX_INITIALIZER;

static cJSON *
parse(ro_slice document)
{
    (void)pthread_mutex_lock(&cjson_parse_lock);
    cJSON *tree = cJSON_ParseWithLength(document.ptr, document.len);
    (void)pthread_mutex_unlock(&cjson_parse_lock);
    return tree;
}

static ro_doc_value
value_of(const cJSON *item)
{
    if (item == NULL) {
        return RO_DOC_ABSENT;
    }
    if (cJSON_IsTrue(item)) {
        return RO_DOC_TRUE;
    }
    return cJSON_IsFalse(item) ? RO_DOC_FALSE : RO_DOC_OTHER;
}

ro_doc_code
ro_doc_lookup(ro_slice object, const char *const *names, size_t count,
              ro_doc_value *values)
{
    cJSON *tree = parse(object);
    ro_doc_code code = tree == NULL ? RO_DOC_NO_MEMORY : RO_DOC_REFUSED;
    if (cJSON_IsObject(tree)) {
        for (size_t i = 0; i < count; i++) {
            values[i]
                = value_of(cJSON_GetObjectItemCaseSensitive(tree, names[i]));
        }
        code = RO_DOC_OK;
    }
    cJSON_Delete(tree);
    return code;
}

#ifdef RO_TEST_ALLOC
void
ro_doc_use_alloc(void)
{
    cJSON_Hooks hooks = {ro_malloc, ro_free};
    cJSON_InitHooks(&hooks);
}
#endif
