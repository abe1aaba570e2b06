#include "core/shapes.h"

/* ---- alphabets ---- */

/* Sets of characters; an alphabet is a union of them. */
enum {
    LOWER = 1,       /* a-z */
    UPPER = 2,       /* A-Z */
    DIGIT = 4,       /* 0-9 */
    UNDERSCORE = 8,  /* _ */
    HYPHEN = 16,     /* - */
    DOT = 32,        /* . */
    TOKEN_MORE = 64, /* + / ~, and then = at the end (RFC 9110, token68) */
};
#define ALNUM (LOWER | UPPER | DIGIT)
#define WORD (ALNUM | UNDERSCORE)
#define URLSAFE (WORD | HYPHEN)
#define TOKEN68 (URLSAFE | DOT | TOKEN_MORE)

#ifdef RO_TEST_ALLOC
static _Thread_local size_t looks;

size_t
ro_shapes_looks(void)
{
    return looks;
}

#define LOOKED(characters) (looks += (characters))
#else
#define LOOKED(characters) ((void)0)
#endif

static unsigned
set_of(char c)
{
    LOOKED(1);
    if (c >= 'a' && c <= 'z') {
        return LOWER;
    }
    if (c >= 'A' && c <= 'Z') {
        return UPPER;
    }
    if (c >= '0' && c <= '9') {
        return DIGIT;
    }
    switch (c) {
    case '_':
        return UNDERSCORE;
    case '-':
        return HYPHEN;
    case '.':
        return DOT;
    case '+':
    case '/':
    case '~':
        return TOKEN_MORE;
    default:
        return 0;
    }
}

static size_t
run_of(ro_slice text, size_t at, unsigned alphabet)
{
    size_t end = at;
    while (end < text.len && (set_of(text.ptr[end]) & alphabet)) {
        end++;
    }
    return end;
}

/* What follows a prefix at text[at]: a run of its alphabet without the full
 * stop of a sentence, and then '=' where the alphabet is base64. */
static size_t
body_of(ro_slice text, size_t at, unsigned alphabet, size_t *len)
{
    size_t end = run_of(text, at, alphabet);
    while (end > at && text.ptr[end - 1] == '.') {
        end--;
    }
    *len = end - at;
    while ((alphabet & TOKEN_MORE) && end < text.len && text.ptr[end] == '=') {
        end++;
    }
    return end;
}

/* ---- the table ---- */

typedef enum kind {
    PREFIX, /* the prefix and what follows */
    WORDY,  /* the same, but not an identifier made of plain words */
    SCHEME, /* a scheme word, white space, a token; the token alone */
    PEM,    /* a private key block */
} kind;

typedef struct shape {
    const char *prefix;
    unsigned alphabet;
    kind kind;
} shape;

/* A longer prefix stands before a shorter one that it begins with, if their
 * alphabets differ. */
static const shape shapes[] = {
    /* Authorization schemes, any case */
    {"bearer", TOKEN68, SCHEME},
    {"basic", ALNUM | TOKEN_MORE, SCHEME},
    /* private keys, PKCS #1, PKCS #8, SEC 1, OpenSSH, PGP */
    {"-----BEGIN ", 0, PEM},
    {"AGE-SECRET-KEY-1", UPPER | DIGIT, PREFIX},
    /* model providers; sk- is OpenAI, Anthropic, OpenRouter, DeepSeek,
     * LiteLLM, Langfuse and more */
    {"sk-", URLSAFE, WORDY},
    {"AIza", URLSAFE, PREFIX}, /* Google */
    {"gsk_", ALNUM, PREFIX},   /* Groq */
    {"hf_", ALNUM, PREFIX},    /* Hugging Face */
    {"nvapi-", URLSAFE, PREFIX},
    {"pplx-", ALNUM, PREFIX},
    {"r8_", ALNUM, PREFIX}, /* Replicate */
    {"xai-", ALNUM, PREFIX},
    /* tracing and search */
    {"lsv2_pt_", WORD, PREFIX}, /* LangSmith */
    {"lsv2_sk_", WORD, PREFIX},
    {"pk-lf-", URLSAFE, PREFIX}, /* Langfuse */
    {"pcsk_", WORD, PREFIX},     /* Pinecone */
    {"tvly-", URLSAFE, WORDY},   /* Tavily */
    /* forges and registries */
    {"ghp_", ALNUM, PREFIX}, /* GitHub */
    {"gho_", ALNUM, PREFIX},
    {"ghu_", ALNUM, PREFIX},
    {"ghs_", ALNUM, PREFIX},
    {"ghr_", ALNUM, PREFIX},
    {"github_pat_", WORD, PREFIX},
    {"glpat-", URLSAFE | DOT, PREFIX}, /* GitLab */
    {"gldt-", URLSAFE, PREFIX},
    {"glptt-", URLSAFE, PREFIX},
    {"glrt-", URLSAFE, PREFIX},
    {"ATATT3", URLSAFE, PREFIX}, /* Atlassian */
    {"npm_", ALNUM, PREFIX},
    {"pypi-", URLSAFE, WORDY},
    {"dckr_pat_", URLSAFE, PREFIX}, /* Docker */
    /* clouds */
    {"AKIA", UPPER | DIGIT, PREFIX}, /* AWS */
    {"ASIA", UPPER | DIGIT, PREFIX},
    {"ya29.", URLSAFE, PREFIX}, /* Google OAuth */
    {"GOCSPX-", URLSAFE, PREFIX},
    {"dapi", LOWER | DIGIT, WORDY}, /* Databricks */
    {"doo_v1_", ALNUM, PREFIX},     /* DigitalOcean */
    {"dop_v1_", ALNUM, PREFIX},
    {"dor_v1_", ALNUM, PREFIX},
    {"hvb.", URLSAFE, PREFIX}, /* HashiCorp Vault */
    {"hvs.", URLSAFE, PREFIX},
    {"pscale_pw_", URLSAFE, PREFIX}, /* PlanetScale */
    {"pscale_tkn_", URLSAFE, PREFIX},
    {"sbp_", ALNUM, PREFIX}, /* Supabase */
    /* services */
    {"xapp-", URLSAFE, PREFIX}, /* Slack */
    {"xoxa-", URLSAFE, PREFIX},
    {"xoxb-", URLSAFE, PREFIX},
    {"xoxc-", URLSAFE, PREFIX},
    {"xoxd-", URLSAFE, PREFIX},
    {"xoxe-", URLSAFE, PREFIX},
    {"xoxe.", URLSAFE | DOT, PREFIX},
    {"xoxp-", URLSAFE, PREFIX},
    {"xoxr-", URLSAFE, PREFIX},
    {"xoxs-", URLSAFE, PREFIX},
    {"SG.", URLSAFE | DOT, WORDY}, /* SendGrid */
    {"xkeysib-", URLSAFE, PREFIX}, /* Brevo */
    {"pk_live_", ALNUM, PREFIX},   /* Stripe */
    {"pk_test_", ALNUM, PREFIX},
    {"rk_live_", ALNUM, PREFIX},
    {"rk_test_", ALNUM, PREFIX},
    {"sk_live_", ALNUM, PREFIX},
    {"sk_test_", ALNUM, PREFIX},
    {"whsec_", ALNUM | TOKEN_MORE, PREFIX},
    {"shpat_", ALNUM, PREFIX}, /* Shopify */
    {"shpca_", ALNUM, PREFIX},
    {"shppa_", ALNUM, PREFIX},
    {"shpss_", ALNUM, PREFIX},
    {"glc_", ALNUM | TOKEN_MORE, PREFIX}, /* Grafana */
    {"glsa_", WORD, PREFIX},
    {"sntrys_", URLSAFE | TOKEN_MORE, PREFIX}, /* Sentry */
    {"sntryu_", ALNUM, PREFIX},
    {"lin_api_", ALNUM, PREFIX}, /* Linear */
    {"ntn_", ALNUM, PREFIX},     /* Notion */
    {"figd_", URLSAFE, PREFIX},  /* Figma */
    {"pul-", LOWER | DIGIT, PREFIX},
    {"PMAK-", ALNUM | HYPHEN, PREFIX}, /* Postman */
};

#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

const char *
ro_shapes_prefix(size_t index)
{
    return index < SHAPES ? shapes[index].prefix : NULL;
}

/* ---- what a match is ---- */

/* A prefix begins a word: "disk-sk-1" holds none. */
static bool
at_boundary(ro_slice text, size_t at)
{
    return at == 0 || !(set_of(text.ptr[at - 1]) & URLSAFE);
}

/* Whether text[at, end) is words and small numbers put together, such as
 * "learn-pipeline-v2": a name, not a random token. */
static bool
is_wordy(ro_slice text, size_t at, size_t end)
{
    while (at < end) {
        size_t stop = run_of(text, at, ALNUM);
        size_t digits;
        if (stop > end) {
            stop = end;
        }
        /* "v2" and "Title" are read from their second character. */
        if (stop - at > 1
            && (text.ptr[at] == 'v' || (set_of(text.ptr[at]) & UPPER))) {
            at++;
        }
        digits = run_of(text, at, DIGIT) - at;
        if (digits > 4) {
            return false;
        }
        if (digits == 0) {
            size_t letters = run_of(text, at, LOWER) - at;
            if (letters >= RO_SHAPE_MIN) {
                return false;
            }
            at += letters;
        }
        else {
            at += digits;
        }
        if (at < stop) {
            return false; /* letters and digits mixed */
        }
        at = stop + 1;
    }
    return true;
}

/* Each of these returns whether the shape stands at text[at] and sets what
 * is to be replaced. */
static bool
prefix_at(const shape *s, ro_slice text, size_t at, size_t *end)
{
    size_t body = at + strlen(s->prefix);
    size_t len;

    *end = body_of(text, body, s->alphabet, &len);
    if (len < RO_SHAPE_MIN) {
        return false;
    }
    if (*end < text.len && (set_of(text.ptr[*end]) & WORD)) {
        return false; /* the word goes on in another alphabet */
    }
    return s->kind != WORDY || !is_wordy(text, body, *end);
}

static bool
scheme_at(const shape *s, ro_slice text, size_t at, size_t *first, size_t *end)
{
    size_t gap = at + strlen(s->prefix);
    size_t token = gap;
    size_t len;

    while (token < text.len
           && (text.ptr[token] == ' ' || text.ptr[token] == '\t')) {
        token++;
    }
    *first = token;
    *end = body_of(text, token, s->alphabet, &len);
    if (token == gap || len < RO_SHAPE_MIN) {
        return false;
    }
    if (set_of(text.ptr[at]) & UPPER) {
        return true;
    }
    /* A scheme in small letters may be prose: "bearer token-based-access",
     * "basic responsibilities". */
    return s->alphabet == TOKEN68 ? !is_wordy(text, token, *end)
                                  : run_of(text, token, LOWER) != *end;
}

#define CLOSING "-----END "

/* One call of ro_shapes_search. */
typedef struct search {
    ro_slice text;
    size_t closing; /* see pem_closing */
    bool asked;
} search;

static bool
starts(ro_slice text, size_t at, const char *with)
{
    size_t len = strlen(with);
    return text.len - at >= len && memcmp(text.ptr + at, with, len) == 0;
}

/* The end of "PRIVATE KEY-----" or "... PRIVATE KEY BLOCK-----" that
 * begins at text[at] with words in capitals; 0 when it is none. */
static size_t
pem_label(ro_slice text, size_t at)
{
    static const char key[] = "PRIVATE KEY";
    static const char block[] = " BLOCK";
    size_t limit = at + 48; /* characters: longer than any label in use */

    while (at < text.len && at < limit) {
        if (starts(text, at, key)) {
            at += sizeof(key) - 1;
            at += starts(text, at, block) ? sizeof(block) - 1 : 0;
            return starts(text, at, "-----") ? at + 5 : 0;
        }
        if (text.ptr[at] != ' ' && !(set_of(text.ptr[at]) & (UPPER | DIGIT))) {
            return 0;
        }
        at++;
    }
    return 0;
}

static bool
is_space(char c)
{
    LOOKED(1);
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Where the next "-----END " at or behind text[at] is, or text.len. Kept
 * from call to call, so that a text of many beginnings costs one pass. */
static size_t
pem_closing(search *in, size_t at)
{
    if (!in->asked || in->closing < at) {
        const char *found = memmem(in->text.ptr + at, in->text.len - at,
                                   CLOSING, sizeof(CLOSING) - 1);
        in->asked = true;
        in->closing
            = found == NULL ? in->text.len : (size_t)(found - in->text.ptr);
        LOOKED(in->closing - at);
    }
    return in->closing;
}

static bool
pem_at(const shape *s, search *in, size_t at, size_t *end)
{
    ro_slice text = in->text;
    size_t body = pem_label(text, at + strlen(s->prefix));
    size_t closing;
    size_t seen = 0;

    if (body == 0) {
        return false;
    }
    closing = pem_closing(in, body);
    if (closing < text.len) {
        *end = pem_label(text, closing + sizeof(CLOSING) - 1);
        for (size_t i = body; i < closing && seen < RO_SHAPE_MIN; i++) {
            seen += !is_space(text.ptr[i]);
        }
        if (*end != 0) {
            return seen >= RO_SHAPE_MIN;
        }
    }
    /* Cut off: a mention in a sentence is not the start of a key. */
    while (body < text.len && is_space(text.ptr[body])) {
        body++;
    }
    *end = text.len;
    return starts(text, body, "Proc-Type:")
           || run_of(text, body, TOKEN68) - body >= RO_SHAPE_MIN;
}

/* Whether the prefix stands at text[at]; scheme words in any case. */
static bool
has_prefix(const shape *s, ro_slice text, size_t at)
{
    for (size_t i = 0; s->prefix[i] != '\0'; i++) {
        char c;
        if (at + i >= text.len) {
            return false;
        }
        c = text.ptr[at + i];
        if (s->kind == SCHEME && (set_of(c) & UPPER)) {
            c = (char)(c | 0x20);
        }
        if (c != s->prefix[i]) {
            return false;
        }
    }
    return true;
}

static bool
shape_at(search *in, size_t at, size_t *first, size_t *end)
{
    ro_slice text = in->text;
    for (size_t i = 0; i < SHAPES; i++) {
        const shape *s = &shapes[i];
        bool is = false;
        if (!has_prefix(s, text, at)) {
            continue;
        }
        *first = at;
        switch (s->kind) {
        case PREFIX:
        case WORDY:
            is = prefix_at(s, text, at, end);
            break;
        case SCHEME:
            is = scheme_at(s, text, at, first, end);
            break;
        case PEM:
            is = pem_at(s, in, at, end);
            break;
        }
        if (is) {
            return true;
        }
    }
    return false;
}

void
ro_shapes_search(ro_slice text,
                 void (*found)(void *context, size_t first, size_t end),
                 void *context)
{
    search in = {.text = text};
    bool begins[256] = {false};
    size_t at = 0;

    for (size_t i = 0; i < SHAPES; i++) {
        unsigned char c = (unsigned char)shapes[i].prefix[0];
        begins[c] = true;
        if (shapes[i].kind == SCHEME) {
            begins[c & 0xDFu] = true;
        }
    }
    while (at + RO_SHAPE_MIN < text.len) {
        size_t first;
        size_t end;
        if (begins[(unsigned char)text.ptr[at]]
            && (text.ptr[at] == '-' || at_boundary(text, at))
            && shape_at(&in, at, &first, &end)) {
            found(context, first, end);
            at = end;
        }
        else {
            at++;
        }
    }
}
