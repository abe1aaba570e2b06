/* Times and counts one C function on one document, without Python.
 *
 *     native OPERATION DOCUMENT MILLISECONDS
 *
 * OPERATION: scan (a whole strict document), keep (the same, duplicate keys
 * kept), reduce (a tools/list answer to the entries of one tool), judge (a
 * tools/call answer to its verdict), redact (the result, with credential
 * shapes and one secret), minify. Runs it for MILLISECONDS, at least once,
 * and prints the nanoseconds of the fastest run; built with RO_TEST_ALLOC it
 * prints the allocations of one run instead. Exit 1: the document was
 * refused. callgrind counts the instructions of measured().
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "core/redact.h"
#include "mcp/result.h"
#include "mcp/toollist.h"

#define MAX_BYTES (64u * 1024u * 1024u)

typedef bool (*operation_fn)(ro_slice document);

static bool
scan_with(ro_slice document, bool keep_duplicates, unsigned max_depth)
{
    ro_json_limits limits = {MAX_BYTES, max_depth, keep_duplicates};
    return ro_json_validate(document, &limits, NULL) == RO_JSON_OK;
}

static bool
scan(ro_slice document)
{
    return scan_with(document, false, RO_MAX_DEPTH);
}

static bool
keep(ro_slice document)
{
    return scan_with(document, true, RO_MAX_DEPTH + RO_LIST_EXTRA_DEPTH);
}

static bool
reduce(ro_slice document)
{
    const ro_list_query query = {
        ro_slice_str("worker-broker_"),
        ro_slice_str("worker-broker_worker_7"),
        RO_MAX_DEPTH,
        NULL,
        NULL,
    };
    ro_list list;
    ro_buf out;
    ro_buf_init(&out, RO_MAX_DISCOVERY);
    bool good = keep(document)
                && ro_list_reduce(document, &query, &list, &out) == RO_LIST_OK;
    ro_buf_free(&out);
    return good;
}

static bool
judge(ro_slice document)
{
    ro_result result;
    return scan(document)
           && ro_result_judge(document, ro_slice_str("2"), &result)
                  == RO_RESULT_OK;
}

static bool
redact(ro_slice document)
{
    const ro_slice secret = ro_slice_str("a-secret-of-the-benchmark");
    const ro_secrets_limits limits
        = {RO_MIN_SECRET, RO_MAX_SECRET, RO_MAX_SECRETS};
    ro_redact_rules rules = {NULL, true, ro_redact_attestation};
    ro_secrets *secrets = NULL;
    ro_buf out;
    ro_buf_init(&out, MAX_BYTES);
    bool good = ro_secrets_new(&secret, 1, &limits, &secrets) == RO_SECRETS_OK;
    rules.secrets = secrets;
    good = good && ro_redact(document, &rules, &out) == RO_REDACT_OK;
    ro_secrets_free(secrets);
    ro_buf_free(&out);
    return good;
}

static bool
minify(ro_slice document)
{
    ro_buf out;
    ro_buf_init(&out, MAX_BYTES);
    bool good = scan(document) && ro_json_minify(document, &out) == RO_BUF_OK;
    ro_buf_free(&out);
    return good;
}

static const struct {
    const char *name;
    operation_fn run;
} operations[] = {
    {"scan", scan},   {"keep", keep},     {"reduce", reduce},
    {"judge", judge}, {"redact", redact}, {"minify", minify},
};

static operation_fn
operation_of(const char *name)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        if (strcmp(operations[i].name, name) == 0) {
            return operations[i].run;
        }
    }
    return NULL;
}

/* Not inlined: callgrind collects what is below it. */
__attribute__((noinline)) static bool
measured(operation_fn run, ro_slice document)
{
    bool good = run(document);
    __asm__ volatile("" ::: "memory");
    return good;
}

static long long
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
}

static bool
read_document(const char *path, ro_buf *out)
{
    char chunk[65536];
    size_t got;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    bool good = true;
    while (good && (got = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        good = ro_buf_append(out, chunk, got) == RO_BUF_OK;
    }
    good = good && ferror(file) == 0;
    fclose(file);
    return good;
}

#ifdef RO_TEST_ALLOC
static bool
report(operation_fn run, ro_slice document, long long until)
{
    (void)until;
    ro_alloc_fail_at(0, 0);
    bool good = measured(run, document);
    printf("%zu\n", ro_alloc_count());
    return good;
}
#else
static bool
report(operation_fn run, ro_slice document, long long until)
{
    long long best = 0;
    bool good;
    do {
        long long started = now_ns();
        good = measured(run, document);
        long long spent = now_ns() - started;
        if (best == 0 || spent < best) {
            best = spent;
        }
    } while (good && now_ns() < until);
    printf("%lld\n", best);
    return good;
}
#endif

int
main(int argc, char **argv)
{
    operation_fn run = argc == 4 ? operation_of(argv[1]) : NULL;
    if (run == NULL) {
        fputs("usage: native OPERATION DOCUMENT MILLISECONDS\n", stderr);
        return 2;
    }
    ro_buf document;
    ro_buf_init(&document, MAX_BYTES);
    long long until = now_ns() + strtoll(argv[3], NULL, 10) * 1000000LL;
    bool good = read_document(argv[2], &document)
                && report(run, ro_buf_slice(&document), until);
    ro_buf_free(&document);
    return good ? 0 : 1;
}
