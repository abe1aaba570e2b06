/* Redaction of JSON values, byte for byte. */
#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "core/redact.h"

#include "check.h"

#define R RO_REDACTED

static ro_secrets *
compile(const char *const *texts)
{
    static const ro_secrets_limits limits = {
        .min_len = RO_MIN_SECRET,
        .max_len = RO_MAX_SECRET,
        .max_count = RO_MAX_SECRETS,
    };
    ro_slice values[8];
    ro_secrets *secrets = NULL;
    size_t count = 0;
    for (; texts[count] != NULL; count++) {
        values[count] = ro_slice_str(texts[count]);
    }
    CHECK(ro_secrets_new(values, count, &limits, &secrets) == RO_SECRETS_OK);
    return secrets;
}

static const char *const canary[] = {"s3cret/canary", "other\"one\\", NULL};

/* Whether redacting `in` gives `out`; rules as given. */
static bool
gives(const ro_redact_rules *rules, const char *in, const char *out)
{
    ro_json_limits strict = {.max_bytes = SIZE_MAX, .max_depth = 64};
    ro_buf buf;
    ro_redact_code code;
    bool same;

    CHECK(ro_json_validate(ro_slice_str(in), &strict, NULL) == RO_JSON_OK);
    ro_buf_init(&buf, SIZE_MAX);
    code = ro_redact(ro_slice_str(in), rules, &buf);
    CHECK(code == RO_REDACT_OK);
    same = ro_slice_equal(ro_buf_slice(&buf), ro_slice_str(out));
    if (!same) {
        fprintf(stderr, "  %s\n  %.*s\n", in, (int)buf.len,
                buf.len > 0 ? buf.data : "");
    }
    CHECK(ro_json_validate(ro_buf_slice(&buf), &strict, NULL) == RO_JSON_OK);
    ro_buf_free(&buf);
    return same;
}

static bool
secret(const char *in, const char *out)
{
    ro_secrets *secrets = compile(canary);
    ro_redact_rules rules = {.secrets = secrets};
    bool same = gives(&rules, in, out);
    ro_secrets_free(secrets);
    return same;
}

static bool
shape(const char *in, const char *out)
{
    ro_redact_rules rules = {.shapes = true};
    return gives(&rules, in, out);
}

static void
check_places(void)
{
    CHECK(secret("\"s3cret/canary\"", "\"" R "\""));
    CHECK(secret(" [ 1.10 , \"a s3cret/canary b\" , null ] ",
                 " [ 1.10 , \"a " R " b\" , null ] "));
    CHECK(secret("{\"k s3cret/canary\" : {\"\\u006b\":[\"s3cret/canary\"]}}",
                 "{\"k " R "\" : {\"\\u006b\":[\"" R "\"]}}"));
    CHECK(secret("[\"s3cret/canar\",\"y\"]", "[\"s3cret/canar\",\"y\"]"));
    CHECK(
        secret("[\"s3cret\\/canaryx\\u0041\\/\"]", "[\"" R "x\\u0041\\/\"]"));
    /* touching and overlapping matches are one */
    CHECK(secret("\"s3cret/canarys3cret/canary\"", "\"" R "\""));
    CHECK(secret("\"s3cret/canary s3cret/canary\"", "\"" R " " R "\""));
    CHECK(secret("12345678901234567890", "12345678901234567890"));
    CHECK(secret("\"\"", "\"\""));
    CHECK(secret("[]", "[]"));
    CHECK(secret("{}", "{}"));
}

/* The shortest secret that counts, as the whole string; of two secrets that
 * begin alike, or of which one is inside the other, all of the longer. */
static void
check_lengths(void)
{
    static const char *const texts[]
        = {"8bytes!?", "8bytes!?and/more", "e/8bytes!?x", NULL};
    static const char *const pairs[][2] = {
        {"\"8bytes!?\"", "\"" R "\""},
        {"\"8bytes!\"", "\"8bytes!\""},
        {"\"8bytes!?and/more\"", "\"" R "\""},
        {"\"8bytes!?and/mor\"", "\"" R "and/mor\""},
        {"\"e/8bytes!?x\"", "\"" R "\""},
        {"\"e/8bytes!?y\"", "\"e/" R "y\""},
        {"\"e/8bytes!?\"", "\"e/" R "\""},
    };
    ro_secrets *secrets = compile(texts);
    ro_redact_rules rules = {.secrets = secrets};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        CHECK(gives(&rules, pairs[i][0], pairs[i][1]));
    }
    ro_secrets_free(secrets);
}

static void
check_forms(void)
{
    /* JSON escapes */
    CHECK(secret("\"<\\u0073\\u0033cret\\/c\\u0061nary>\"", "\"<" R ">\""));
    CHECK(secret("\"<other\\\"one\\\\>\"", "\"<" R ">\""));
    CHECK(secret("\"<\\u006fther\\u0022one\\u005C>\"", "\"<" R ">\""));
    /* percent, any mixture, either case, twice */
    CHECK(secret("\"?a=s3cret%2Fcanary&\"", "\"?a=" R "&\""));
    CHECK(secret("\"?a=s3cret%2fcanar%79%20\"", "\"?a=" R "%20\""));
    CHECK(secret("\"%73%33%63%72%65%74%2F%63%61%6e%61%72%79\"", "\"" R "\""));
    CHECK(secret("\"s3cret%252Fcanary\"", "\"" R "\""));
    CHECK(secret("\"s3cret\\u00252Fcanary!\"", "\"" R "!\""));
    CHECK(secret("\"%s3cret/canary%\"", "\"%" R "%\""));
    /* base64 of "s3cret/canary", ":s3..." and "u:s3..." */
    CHECK(secret("\"-czNjcmV0L2NhbmFyeQ==\"", "\"-" R "\""));
    CHECK(secret("\" OnMzY3JldC9jYW5hcnk=\"", "\" O" R "\""));
    CHECK(secret("\"dTpzM2NyZXQvY2FuYXJ5.\"", "\"dT" R ".\""));
    CHECK(secret("\"dTpzM2NyZXQvY2FuYXJ5MDEyMw\"", "\"dT" R "MDEyMw\""));
    CHECK(secret("\"czNjcmV0L2Nh\\r\\n bmFyeQ==\\r\\n\"", "\"" R "\\r\\n\""));
    CHECK(secret("\"czNjcmV0L2NhbmFyeQ%3D%3d&\"", "\"" R "&\""));
    /* JSON inside the string, and inside that */
    CHECK(secret("\"{\\\"a\\\":\\\"other\\\\\\\"one\\\\\\\\\\\"}\"",
                 "\"{\\\"a\\\":\\\"" R "\\\"}\""));
    CHECK(secret("\"{\\\"a\\\":\\\"\\\\u0073\\\\u0033cret/canary\\\"}\"",
                 "\"{\\\"a\\\":\\\"" R "\\\"}\""));
    CHECK(secret("\"\\\\\\\\\\\\\\\\u0073\\u0033cret/canary\"", "\"" R "\""));
}

/* A secret with percent signs of its own, in a text that has it encoded once:
 * all of them resolved it would be too short to be looked for. */
static void
check_percent_signs(void)
{
    static const char *const texts[] = {"b%42bcdef", NULL};
    ro_secrets *secrets = compile(texts);
    ro_redact_rules rules = {.secrets = secrets};
    CHECK(gives(&rules, "\"<b%42bcdef>\"", "\"<" R ">\""));
    CHECK(gives(&rules, "\"<b%2542bcdef>\"", "\"<" R ">\""));
    CHECK(gives(&rules, "\"<bBbcdef>\"", "\"<bBbcdef>\""));
    ro_secrets_free(secrets);
}

/* A text of JSON in a text of JSON and so on: searched down to the bound, and
 * no further. Each level doubles the backslashes. */
static void
check_nesting(void)
{
    for (unsigned level = 0; level <= RO_MAX_NESTED_TEXTS + 1; level++) {
        char in[1024] = "\"";
        size_t len = 1 + ((size_t)1 << level);
        memset(in + 1, '\\', len - 1);
        (void)snprintf(in + len, sizeof(in) - len, "%s",
                       "u00733cret/canary\"");
        CHECK(secret(in, level <= RO_MAX_NESTED_TEXTS ? "\"" R "\"" : in));
    }
}

static void
check_alphabets(void)
{
    /* bytes whose base64 is - and _ in the one, + and / in the other */
    static const char *const texts[]
        = {"\xfb\xff\xfe\xfb\xff\xfe\xfb\xff\xfe", "caf\xC3\xA9 noir", NULL};
    ro_secrets *secrets = compile(texts);
    ro_redact_rules rules = {.secrets = secrets};
    CHECK(gives(&rules, "\"+//++//++//+\"", "\"" R "\""));
    CHECK(gives(&rules, "\"-__--__--__-\"", "\"" R "\""));
    CHECK(gives(&rules, "\"%2B//++//+%2b%2F/+\"", "\"" R "\""));
    CHECK(gives(&rules, "\"caf\xC3\xA9 noir caf\\u00e9 noir\"",
                "\"" R " " R "\""));
    CHECK(gives(&rules, "\"caf%C3%A9%20noir caf%C3%A9+noir\"",
                "\"" R " " R "\""));
    ro_secrets_free(secrets);
}

/* A secret of bytes that begins or ends inside a character. */
static void
check_whole_characters(void)
{
    static const char *const texts[] = {"\xA9 noir noir \xC3", NULL};
    ro_secrets *secrets = compile(texts);
    ro_redact_rules rules = {.secrets = secrets};
    CHECK(
        gives(&rules, "\"caf\xC3\xA9 noir noir \xC3\xA9s\"", "\"caf" R "s\""));
    CHECK(gives(&rules, "\"caf\\u00e9 noir noir \\u00e9s\"", "\"caf" R "s\""));
    ro_secrets_free(secrets);
}

static void
check_shapes(void)
{
    CHECK(shape("[\"Authorization: Bearer abcdefghijklmnop\"]",
                "[\"Authorization: Bearer " R "\"]"));
    CHECK(shape("\"{\\\"k\\\":\\\"sk-0123456789abcdef\\\"}\"",
                "\"{\\\"k\\\":\\\"" R "\\\"}\""));
    /* a line break in the JSON inside the string is a word boundary */
    CHECK(shape("\"{\\\"k\\\":\\\"a\\\\nsk-0123456789abcdef\\\"}\"",
                "\"{\\\"k\\\":\\\"a\\\\n" R "\\\"}\""));
    CHECK(shape("\"x=Bearer%20abcdefghijklmnop&\"", "\"x=Bearer%20" R "&\""));
    CHECK(shape("{\"ghp_0123456789abcdef\":\"g\\u0068p_0123456789abcdef\"}",
                "{\"" R "\":\"" R "\"}"));
    CHECK(shape("[\"task-sk-0123456789abcdef\",\"d41d8cd98f00b204e98009\"]",
                "[\"task-sk-0123456789abcdef\",\"d41d8cd98f00b204e98009\"]"));
    CHECK(shape("\"-----BEGIN PRIVATE KEY-----\\nMIIEabcdefghijklmnop\"",
                "\"" R "\""));
}

static void
check_attestation(void)
{
    ro_secrets *secrets = compile(canary);
    ro_redact_rules rules = {
        .secrets = secrets,
        .shapes = true,
        .attested = ro_redact_attestation,
    };
    static const char shaped[] = "\"sk-0123456789abcdef\"";
    static const struct {
        const char *before;
        const char *behind;
        bool kept;
    } cases[] = {
        {"{\"qualification\":{\"output_attestation\":", "}}", true},
        {"{\"qualification\":{\"output_attestation\":[{\"a\":[", "]}]}}",
         true},
        {"{\"a\":[1,{}],\"qualification\":{\"b\":{},\"output_attestation\":{"
         "\"qualification\":1,\"c\":",
         "}}}", true},
        {"{\"qualific\\u0061tion\":{\"output\\u005fattestation\":", "}}",
         true},
        {"{\"qualification\":{\"output_attestation\":{},\"x\":", "}}", false},
        {"{\"qualification\":{\"output_attestation\":{}},\"x\":", "}", false},
        {"{\"qualification\":{\"x\":", ",\"output_attestation\":1}}", false},
        {"{\"qualification\":", "}", false},
        {"{\"qualification\":[{\"output_attestation\":", "}]}", false},
        {"{\"qualification\":{\"x\":{\"output_attestation\":", "}}}", false},
        {"{\"x\":{\"qualification\":{\"output_attestation\":", "}}}", false},
        {"{\"x\":{\"output_attestation\":", "}}", false},
        {"{\"output_attestation\":{\"qualification\":", "}}", false},
        {"[{\"qualification\":{\"output_attestation\":", "}}]", false},
        {"{\"Qualification\":{\"output_attestation\":", "}}", false},
        {"{\"qualification\":{\"output_attestation\\u0000\":", "}}", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char in[512];
        char out[512];
        snprintf(in, sizeof(in), "%s%s%s", cases[i].before, shaped,
                 cases[i].behind);
        snprintf(out, sizeof(out), "%s%s%s", cases[i].before,
                 cases[i].kept ? shaped : "\"" R "\"", cases[i].behind);
        CHECK(gives(&rules, in, out));
        /* configured secrets go everywhere */
        snprintf(in, sizeof(in), "%s\"s3cret/canary\"%s", cases[i].before,
                 cases[i].behind);
        snprintf(out, sizeof(out), "%s\"" R "\"%s", cases[i].before,
                 cases[i].behind);
        CHECK(gives(&rules, in, out));
    }
    rules.attested = NULL;
    CHECK(gives(&rules,
                "{\"qualification\":{\"output_attestation\":"
                "\"sk-0123456789abcdef\"}}",
                "{\"qualification\":{\"output_attestation\":\"" R "\"}}"));
    ro_secrets_free(secrets);
}

static ro_redact_code
code_of(const char *in, const ro_redact_rules *rules, size_t max)
{
    ro_buf buf;
    ro_redact_code code;
    ro_buf_init(&buf, max);
    CHECK(ro_buf_append(&buf, "kept", 4) == RO_BUF_OK);
    code = ro_redact(ro_slice_str(in), rules, &buf);
    CHECK((code == RO_REDACT_OK) == (buf.len > 4));
    CHECK(memcmp(buf.data, "kept", 4) == 0);
    ro_buf_free(&buf);
    return code;
}

static void
check_codes(void)
{
    ro_secrets *secrets = compile(canary);
    ro_redact_rules rules = {.secrets = secrets, .shapes = true};

    CHECK(code_of("{\"s3cret/canary\":1,\"s3cret\\/canary%\":2}", &rules, 999)
          == RO_REDACT_OK);
    CHECK(code_of("{\"s3cret/canary\":1,\"s3cret%2Fcanary\":2}", &rules, 999)
          == RO_REDACT_KEYS_COLLIDE);
    CHECK(code_of("[{\"a\":{\"s3cret/canary\":1,\"" R "\":2}}]", &rules, 999)
          == RO_REDACT_KEYS_COLLIDE);
    CHECK(code_of("[{\"a\":{\"s3cret/canary\":1,\"\\u003credacted-secret>\":2"
                  "}}]",
                  &rules, 999)
          == RO_REDACT_KEYS_COLLIDE);
    CHECK(code_of("[{\"s3cret/canary\":1},{\"s3cret/canary\":1}]", &rules, 999)
          == RO_REDACT_OK);
    CHECK(code_of("{\"s3cret/canary\":{\"s3cret/canary\":1}}", &rules, 999)
          == RO_REDACT_OK);
    /* the marker is longer than the secret: 4 + 19 */
    CHECK(code_of("\"s3cret/canary\"", &rules, 23) == RO_REDACT_OK);
    CHECK(code_of("\"s3cret/canary\"", &rules, 22) == RO_REDACT_TOO_LARGE);
    CHECK(code_of("\"aaaaaaaaaaaa\"", &rules, 17) == RO_REDACT_TOO_LARGE);
    CHECK(code_of("[1,2,3,4]", &rules, 12) == RO_REDACT_TOO_LARGE);
    /* marks have 32 bits; what is too large is not looked at */
    ro_buf buf;
    ro_buf_init(&buf, 999);
    CHECK(ro_redact(ro_slice_of("1", UINT32_MAX), &rules, &buf)
          == RO_REDACT_TOO_LARGE);
    ro_buf_free(&buf);
    ro_secrets_free(secrets);
}

static void
check_no_memory(void)
{
    static const char in[]
        = "{\"s3cret/canary\":[\"a\\\\n%41s3cret%2Fcanary\",\"other\\\"one\\\\"
          "\",\"a longer text without any of them, but with a sk-01234567890"
          "123456789 in it\"]}";
    ro_secrets *secrets = compile(canary);
    ro_redact_rules rules = {.secrets = secrets, .shapes = true};
    size_t live = ro_alloc_live();
    bool done = false;

    for (size_t nth = 1; !done && nth < 200; nth++) {
        ro_buf buf;
        ro_redact_code code;
        ro_buf_init(&buf, 4096);
        ro_alloc_fail_at(nth, 0);
        code = ro_redact(ro_slice_str(in), &rules, &buf);
        done = ro_alloc_count() < nth; /* none was left to fail */
        ro_alloc_fail_at(0, 0);
        CHECK(code == (done ? RO_REDACT_OK : RO_REDACT_NO_MEMORY));
        CHECK(done == (buf.len > 0));
        ro_buf_free(&buf);
        CHECK(ro_alloc_live() == live);
    }
    CHECK(done);
    ro_secrets_free(secrets);
}

int
main(void)
{
    check_places();
    check_lengths();
    check_forms();
    check_percent_signs();
    check_nesting();
    check_alphabets();
    check_whole_characters();
    check_shapes();
    check_attestation();
    check_codes();
    check_no_memory();
    return check_end();
}
