#include "mcp/record.h"

#include <pthread.h>

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"

struct ro_record {
    pthread_mutex_t lock; /* all below */
    bool recorded;
    ro_code outcome;
    ro_buf structured;
};

ro_record *
ro_record_new(void)
{
    ro_record *record = ro_calloc(1, sizeof(*record));
    if (record == NULL) {
        return NULL;
    }
    if (pthread_mutex_init(&record->lock, NULL) != 0) {
        ro_free(record);
        return NULL;
    }
    ro_buf_init(&record->structured, RO_MAX_ANSWER);
    return record;
}

void
ro_record_free(ro_record *record)
{
    if (record == NULL) {
        return;
    }
    ro_buf_free(&record->structured);
    (void)pthread_mutex_destroy(&record->lock);
    ro_free(record);
}

void
ro_record_failure(ro_record *record, ro_code code)
{
    if (record == NULL) {
        return;
    }
    pthread_mutex_lock(&record->lock);
    if (!record->recorded) {
        record->recorded = true;
        record->outcome = code;
    }
    pthread_mutex_unlock(&record->lock);
}

void
ro_record_success(ro_record *record, ro_slice structured)
{
    if (record == NULL) {
        return;
    }
    pthread_mutex_lock(&record->lock);
    if (!record->recorded) {
        record->recorded = true;
        /* The copy stays readable after the lock: a second outcome is ignored.
         */
        record->outcome
            = ro_json_minify(structured, &record->structured) == RO_BUF_OK
                  ? RO_CODE_OK
                  : RO_CODE_RUNTIME_FAILURE;
    }
    pthread_mutex_unlock(&record->lock);
}

bool
ro_record_outcome(ro_record *record, ro_code *code)
{
    if (record == NULL) {
        return false;
    }
    pthread_mutex_lock(&record->lock);
    bool recorded = record->recorded;
    if (recorded) {
        *code = record->outcome;
    }
    pthread_mutex_unlock(&record->lock);
    return recorded;
}

ro_slice
ro_record_structured(ro_record *record)
{
    ro_slice structured = {NULL, 0};
    if (record == NULL) {
        return structured;
    }
    pthread_mutex_lock(&record->lock);
    structured = ro_buf_slice(&record->structured);
    pthread_mutex_unlock(&record->lock);
    return structured;
}
