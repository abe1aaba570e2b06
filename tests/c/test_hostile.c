/* Documents and texts that make the key table, the search for secrets and the
 * redaction work as hard as they can: no work grows with the square of them.
 */
#include "core/json.h"
#include "core/limits.h"
#include "core/redact.h"

#include "check.h"

#include <time.h>

/* Processor time, far above what it takes. */
static bool
is_soon(clock_t start)
{
    return (double)(clock() - start) / CLOCKS_PER_SEC < 5.0;
}

static char *
room_of(size_t size)
{
    char *room = malloc(size);
    if (room == NULL) {
        abort();
    }
    return room;
}

static ro_secrets *
compile(const ro_slice *values, size_t count)
{
    static const ro_secrets_limits limits = {
        .min_len = RO_MIN_SECRET,
        .max_len = RO_MAX_SECRET,
        .max_count = RO_MAX_SECRETS,
    };
    ro_secrets *secrets = NULL;
    CHECK(ro_secrets_new(values, count, &limits, &secrets) == RO_SECRETS_OK);
    return secrets;
}

/* One object of very many keys, and of them the first once more. */
static void
test_many_keys(void)
{
    enum { KEYS = 500000, WIDTH = 12 };
    const ro_json_limits limits = {SIZE_MAX, 1, false};
    char *doc = room_of(KEYS * WIDTH + 2);
    clock_t start = clock();

    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(doc + i * WIDTH, WIDTH + 1, "%c\"k%06u\":1",
                       i == 0 ? '{' : ',', i);
    }
    doc[KEYS * WIDTH] = '}';
    ro_slice whole = ro_slice_of(doc, KEYS * WIDTH + 1);
    CHECK(ro_json_validate(whole, &limits, NULL) == RO_JSON_OK);
    memcpy(doc + (KEYS - 1) * WIDTH + 1, doc + 1, WIDTH - 1);
    CHECK(ro_json_validate(whole, &limits, NULL) == RO_JSON_DUPLICATE_KEY);
    CHECK(is_soon(start));
    free(doc);
}

static void
count(void *context, size_t first, size_t end)
{
    (void)first;
    (void)end;
    ++*(size_t *)context;
}

/* Many long secrets that differ at the end alone, and a text of their common
 * letter. */
static void
test_secrets_alike(void)
{
    enum { SECRETS = 300, LONG = 16384, TEXT = 1024 * 1024 };
    char *pool = room_of(SECRETS * LONG);
    char *text = room_of(TEXT);
    ro_slice values[SECRETS];
    ro_secrets_scratch scratch = {0};
    size_t matches = 0;

    memset(pool, 'a', SECRETS * LONG);
    memset(text, 'a', TEXT);
    for (size_t i = 0; i < SECRETS; i++) {
        values[i] = ro_slice_of(pool + i * LONG, LONG);
        if (i > 0) {
            int len = snprintf(pool + i * LONG + LONG - 8, 8, "%07zu", i);
            pool[i * LONG + LONG - 1] = (char)('0' + len);
        }
    }
    clock_t start = clock();
    ro_secrets *secrets = compile(values, SECRETS);
    CHECK(ro_secrets_search(secrets, RO_SECRETS_TEXT, ro_slice_of(text, TEXT),
                            &scratch, count, &matches));
    CHECK(matches == TEXT - LONG + 1);
    CHECK(is_soon(start));
    ro_secrets_scratch_free(&scratch);
    ro_secrets_scratch_free(&scratch);
    ro_secrets_free(secrets);
    free(pool);
    free(text);
}

/* Strings of 1 MiB that make each reading and each search work hard. */
static void
test_readings(void)
{
    static const char *const parts[] = {
        "s3cret/canary", "s3cret/canar", "%73",       "%25",
        "%2573",         "\\\\",         "\\\\u0025", "s",
        "aaaaaaaa",      "AAAA",         "\\u0073",   "\",\"aaaaaaaa",
    };
    const ro_slice values[] = {
        ro_slice_str("s3cret/canary"),
        ro_slice_str("aaaaaaaaaaaaaaaa"),
        ro_slice_str("%25%25%25%25"),
    };
    const ro_json_limits strict = {SIZE_MAX, 64, false};
    size_t room = 1024 * 1024;
    char *in = room_of(room);
    ro_secrets *secrets = compile(values, 3);
    ro_redact_rules rules = {.secrets = secrets, .shapes = true};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t part = strlen(parts[i]);
        size_t len = 2;
        ro_buf buf;
        memcpy(in, "[\"", 2);
        while (len + part + 2 <= room) {
            memcpy(in + len, parts[i], part);
            len += part;
        }
        memcpy(in + len, "\"]", 2);
        ro_slice value = ro_slice_of(in, len + 2);
        CHECK(ro_json_validate(value, &strict, NULL) == RO_JSON_OK);
        ro_buf_init(&buf, SIZE_MAX);
        clock_t start = clock();
        CHECK(ro_redact(value, &rules, &buf) == RO_REDACT_OK);
        CHECK(is_soon(start));
        CHECK(ro_json_validate(ro_buf_slice(&buf), &strict, NULL)
              == RO_JSON_OK);
        ro_buf_free(&buf);
    }
    free(in);
    ro_secrets_free(secrets);
}

int
main(void)
{
    test_many_keys();
    test_secrets_alike();
    test_readings();
    return check_end();
}
