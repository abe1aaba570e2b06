/* Out of memory in what reads and redacts documents: said as that, never as
 * another verdict, and never a document that is redacted in part. And the
 * words of what they say. */
#include "core/base64.h"
#include "core/buf.h"
#include "core/hints.h"
#include "core/json.h"
#include "core/json_keys.h"
#include "core/limits.h"
#include "core/redact.h"
#include "failing.h"

#include <string.h>

/* More keys than are looked up without memory. */
#define MANY (RO_JSON_FEW_KEYS + 6)

static void
append(ro_buf *buf, const char *text)
{
    CHECK(ro_buf_append_slice(buf, ro_slice_str(text)) == RO_BUF_OK);
}

/* "<name><i><pad>":<value>, */
static void
append_member(ro_buf *buf, const char *name, unsigned i, size_t pad,
              const char *value)
{
    static const char more[] = "0123456789012345678901234567890123456789"
                               "0123456789012345678901234567890123456789";
    char member[256];
    (void)snprintf(member, sizeof(member), "\"%s%u%.*s\":%s,", name, i,
                   (int)pad, more, value);
    append(buf, member);
}

/* ---- hints ---- */

struct entry {
    ro_buf bytes;
    ro_hints_code code; /* with all the memory it wants */
};

static bool
judge(void *ctx)
{
    const struct entry *entry = ctx;
    ro_hints_code code
        = ro_hints_judge(ro_buf_slice(&entry->bytes), RO_MAX_DEPTH);
    CHECK(code == entry->code || code == RO_HINTS_NO_MEMORY);
    return code == entry->code;
}

static void
test_hints(void)
{
    static const struct {
        const char *last;
        ro_hints_code code;
    } cases[] = {
        {"", RO_HINTS_READ_ONLY},
        {",\"destructiveHint\":true", RO_HINTS_DESTRUCTIVE},
        {",\"readOnlyHint\":false", RO_HINTS_DUPLICATE_KEY},
        {",\"a\":{\"b\":1,\"b\":2}", RO_HINTS_DUPLICATE_KEY},
        /* keys that are no hints for any reader, and no hints at all */
        {",\"readOnly\\u0000Hint\":1,\"\\u00e9\":1,\"\\ud83d\\ude00\":{}",
         RO_HINTS_READ_ONLY},
        {",\"a key that is longer than any hint would be with all of its "
         "characters written as escapes, quotes included\":1",
         RO_HINTS_READ_ONLY},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t pad = 0; pad < (i == 0 ? 80 : 1); pad++) {
            struct entry entry = {.code = cases[i].code};
            ro_buf_init(&entry.bytes, SIZE_MAX);
            append(&entry.bytes, "{");
            for (unsigned k = 0; k < MANY; k++) {
                append_member(&entry.bytes, "m", k, 0, "1");
            }
            append(&entry.bytes, "\"annotations\":{");
            for (unsigned k = 0; k < MANY; k++) {
                append_member(&entry.bytes, "k", k, pad, "true");
            }
            append(&entry.bytes, "\"readOnlyHint\":true");
            append(&entry.bytes, cases[i].last);
            append(&entry.bytes, "}}");
            CHECK(check_failing(judge, &entry) > 2);
            ro_buf_free(&entry.bytes);
        }
    }
}

/* ---- redaction ---- */

#define SECRET "s3cret canary%1"

struct document {
    ro_buf in;
    ro_buf out; /* what becomes of it */
    const ro_secrets *secrets;
};

static bool
redact(void *ctx)
{
    const struct document *document = ctx;
    ro_redact_rules rules = {.secrets = document->secrets, .shapes = true};
    ro_buf out;
    ro_buf_init(&out, SIZE_MAX);
    ro_redact_code code = ro_redact(ro_buf_slice(&document->in), &rules, &out);
    CHECK(code == RO_REDACT_OK || code == RO_REDACT_NO_MEMORY);
    if (code == RO_REDACT_OK) {
        CHECK(
            ro_slice_equal(ro_buf_slice(&out), ro_buf_slice(&document->out)));
    }
    else {
        CHECK(out.len == 0);
    }
    ro_buf_free(&out);
    return code == RO_REDACT_OK;
}

/* In a key, which is looked up again, in the text of JSON in a text, and
 * encoded in each way that is searched. */
static void
test_redaction(void)
{
    static const ro_secrets_limits limits
        = {RO_MIN_SECRET, RO_MAX_SECRET, RO_MAX_SECRETS};
    static const char *const places[][2] = {
        {SECRET, RO_REDACTED},
        {"a s3cret%20canary%251 b", "a " RO_REDACTED " b"},
        {"s3cret%2520canary%25251", RO_REDACTED},
        {"{\\\"a\\\":\\\"\\\\u0073"
         "3cret canary%1\\\"}",
         "{\\\"a\\\":\\\"" RO_REDACTED "\\\"}"},
        {"Bearer abcdefghijklmnopqrstuvwxyz0123456789ABCDEF",
         "Bearer " RO_REDACTED},
    };
    char digits[64];
    ro_slice value = ro_slice_str(SECRET);
    ro_secrets *secrets = NULL;
    struct document document;
    ro_base64_core core = ro_base64_core_of(value, 0, digits);
    CHECK(ro_secrets_new(&value, 1, &limits, &secrets) == RO_SECRETS_OK);
    document.secrets = secrets;
    ro_buf_init(&document.in, SIZE_MAX);
    ro_buf_init(&document.out, SIZE_MAX);
    append(&document.in, "{\"" SECRET "\":1,");
    append(&document.out, "{\"" RO_REDACTED "\":1,");
    for (unsigned i = 0; i < MANY; i++) {
        append_member(&document.in, "m", i, 0, "[]");
        append_member(&document.out, "m", i, 0, "[]");
    }
    append(&document.in, "\"b\":\"");
    CHECK(ro_buf_append(&document.in, digits, core.len) == RO_BUF_OK);
    append(&document.in, "\",");
    append(&document.out, "\"b\":\"" RO_REDACTED "\",");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        for (int k = 0; k < 2; k++) {
            char member[256];
            (void)snprintf(member, sizeof(member), "\"p%zu\":\"%s\",", i,
                           places[i][k]);
            append(k == 0 ? &document.in : &document.out, member);
        }
    }
    append(&document.in, "\"end\":0}");
    append(&document.out, "\"end\":0}");
    CHECK(check_failing(redact, &document) > 6);
    ro_buf_free(&document.in);
    ro_buf_free(&document.out);
    ro_secrets_free(secrets);
}

/* A value of 4 GiB is refused before a byte of it is read. */
static void
test_a_value_beyond_its_offsets(void)
{
    ro_redact_rules rules = {.secrets = NULL};
    ro_buf out;
    ro_buf_init(&out, SIZE_MAX);
    CHECK(ro_redact(ro_slice_of("\"\"", UINT32_MAX), &rules, &out)
          == RO_REDACT_TOO_LARGE);
    CHECK(out.len == 0);
    CHECK(ro_redact(ro_slice_of("\"\"", 2), &rules, &out) == RO_REDACT_OK);
    CHECK(ro_slice_equal(ro_buf_slice(&out), ro_slice_str("\"\"")));
    ro_buf_free(&out);
}

/* ---- words ---- */

static void
test_words(void)
{
    for (int i = 0; i < RO_HINTS_CODES; i++) {
        ro_hints_code code = (ro_hints_code)i;
        CHECK(ro_hints_reason(code)[0] != '\0');
        CHECK(ro_hints_text(code)[0] != '\0');
        CHECK(ro_hints_remedy(code)[0] != '\0');
        for (int k = 0; k < i; k++) {
            CHECK(strcmp(ro_hints_reason(code),
                         ro_hints_reason((ro_hints_code)k))
                  != 0);
        }
    }
    CHECK(strcmp(ro_hints_reason((ro_hints_code)RO_HINTS_CODES), "malformed")
          == 0);
    CHECK(strcmp(ro_hints_remedy(RO_HINTS_READ_ONLY), "call it") == 0);
    CHECK(strcmp(ro_json_code_word(RO_JSON_DUPLICATE_KEY), "duplicate_key")
          == 0);
    CHECK(strcmp(ro_json_code_word(RO_JSON_NO_MEMORY), "no_memory") == 0);
}

int
main(void)
{
    test_hints();
    test_redaction();
    test_a_value_beyond_its_offsets();
    test_words();
    CHECK(ro_alloc_live() == 0);
    return check_end();
}
