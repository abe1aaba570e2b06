/* A response head, read from the raw lines that libcurl passes on.
 *
 * libcurl frames the body; what it would read differently from us, or more
 * loosely than a proxy in between, is refused: two lengths, a length that is
 * not digits or too large, a transfer coding that is not chunked, or twice, a
 * folded framing field.
 */
#include "net/head.h"

#include <curl/curl.h>
#include <strings.h>

#include "core/alloc.h"

typedef struct ro_field_at {
    size_t name;
    size_t name_len;
    size_t value;
    size_t value_len;
} ro_field_at;

bool
ro_is_token(ro_slice text)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
                     || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return text.len > 0;
}

bool
ro_name_is(ro_slice name, const char *lower)
{
    return strlen(lower) == name.len
           && strncasecmp(name.ptr, lower, name.len) == 0;
}

static bool
is_space(char c)
{
    return c == ' ' || c == '\t';
}

static ro_slice
trim(ro_slice text)
{
    while (text.len > 0 && is_space(text.ptr[0])) {
        text.ptr++;
        text.len--;
    }
    while (text.len > 0 && is_space(text.ptr[text.len - 1])) {
        text.len--;
    }
    return text;
}

static ro_net_code
from_buf(ro_buf_code code)
{
    switch (code) {
    case RO_BUF_OK:
        return RO_NET_OK;
    case RO_BUF_TOO_LARGE:
        return RO_NET_HEADERS_TOO_LARGE;
    case RO_BUF_NO_MEMORY:
        break;
    }
    return RO_NET_NO_MEMORY;
}

/* ---- reading lines ---- */

static int
digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : -1;
}

/* "HTTP/1.1 200 OK"; libcurl writes HTTP/2 as "HTTP/2 200 ". */
static ro_net_code
read_status(ro_head_reader *head, ro_slice line, size_t max)
{
    static const struct {
        const char *text;
        int version;
    } versions[] = {{"HTTP/1.1 ", 11}, {"HTTP/1.0 ", 10}, {"HTTP/2 ", 20}};
    size_t at = 0;

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        size_t len = strlen(versions[i].text);
        if (line.len >= len && memcmp(line.ptr, versions[i].text, len) == 0) {
            head->version = versions[i].version;
            at = len;
        }
    }
    if (at == 0 || line.len < at + 3) {
        return RO_NET_PROTOCOL;
    }
    head->status = 0;
    for (size_t i = 0; i < 3; i++) {
        int value = digit(line.ptr[at + i]);
        if (value < 0) {
            return RO_NET_PROTOCOL;
        }
        head->status = head->status * 10 + value;
    }
    at += 3;
    if (head->status < 100 || (at < line.len && line.ptr[at] != ' ')) {
        return RO_NET_PROTOCOL;
    }
    at += at < line.len;
    ro_buf_free(&head->text);
    ro_buf_init(&head->text, max);
    head->n_fields = 0;
    head->in_block = true;
    head->reason_len = line.len - at;
    return from_buf(
        ro_buf_append(&head->text, line.ptr + at, head->reason_len));
}

static ro_field_at *
new_field(ro_head_reader *head)
{
    if (head->n_fields == head->cap_fields) {
        size_t cap = head->cap_fields ? head->cap_fields * 2 : 16;
        ro_field_at *fields
            = ro_realloc(head->fields_at, cap * sizeof(*fields));
        if (fields == NULL) {
            return NULL;
        }
        head->fields_at = fields;
        head->cap_fields = cap;
    }
    return &head->fields_at[head->n_fields++];
}

static bool
is_framing(ro_slice name)
{
    return ro_name_is(name, "content-length")
           || ro_name_is(name, "transfer-encoding")
           || ro_name_is(name, "content-encoding");
}

/* The continuation of a folded field is one space and its text. */
static ro_net_code
read_fold(ro_head_reader *head, ro_slice line)
{
    if (head->n_fields == 0) {
        return RO_NET_PROTOCOL;
    }
    ro_field_at *field = &head->fields_at[head->n_fields - 1];
    ro_slice name
        = ro_slice_of(head->text.data + field->name, field->name_len);
    if (is_framing(name)) {
        return RO_NET_PROTOCOL;
    }
    ro_slice more = trim(line);
    ro_buf_code code = ro_buf_append_char(&head->text, ' ');
    if (code == RO_BUF_OK) {
        code = ro_buf_append_slice(&head->text, more);
    }
    if (code == RO_BUF_OK) {
        field->value_len += 1 + more.len;
    }
    return from_buf(code);
}

static ro_net_code
read_field(ro_head_reader *head, ro_slice line)
{
    const char *colon = memchr(line.ptr, ':', line.len);

    if (colon == NULL) {
        return RO_NET_PROTOCOL;
    }
    size_t name_len = (size_t)(colon - line.ptr);
    ro_slice name = ro_slice_of(line.ptr, name_len);
    ro_slice value = trim(ro_slice_of(colon + 1, line.len - name_len - 1));
    if (!ro_is_token(name) || memchr(value.ptr, '\r', value.len) != NULL
        || memchr(value.ptr, '\0', value.len) != NULL) {
        return RO_NET_PROTOCOL;
    }
    ro_field_at *field = new_field(head);
    if (field == NULL) {
        return RO_NET_NO_MEMORY;
    }
    field->name = head->text.len;
    field->name_len = name.len;
    field->value = head->text.len + name.len;
    field->value_len = value.len;
    ro_buf_code code = ro_buf_append_slice(&head->text, name);
    if (code == RO_BUF_OK) {
        code = ro_buf_append_slice(&head->text, value);
    }
    return from_buf(code);
}

/* Slices into text, which does not move any more. */
static ro_net_code
complete(ro_head_reader *head)
{
    if (head->n_fields > 0) {
        head->fields = ro_calloc(head->n_fields, sizeof(*head->fields));
        if (head->fields == NULL) {
            return RO_NET_NO_MEMORY;
        }
    }
    for (size_t i = 0; i < head->n_fields; i++) {
        const ro_field_at *at = &head->fields_at[i];
        head->fields[i].name
            = ro_slice_of(head->text.data + at->name, at->name_len);
        head->fields[i].value
            = ro_slice_of(head->text.data + at->value, at->value_len);
    }
    head->complete = true;
    return RO_NET_OK;
}

ro_net_code
ro_head_count(ro_head_reader *head, ro_slice line, size_t max)
{
    if (line.len > max || head->total > max - line.len) {
        return RO_NET_HEADERS_TOO_LARGE;
    }
    head->total += line.len;
    return RO_NET_OK;
}

ro_net_code
ro_head_line(ro_head_reader *head, ro_slice line, size_t max)
{
    ro_net_code code = ro_head_count(head, line, max);

    if (code != RO_NET_OK || head->complete) {
        return code; /* behind the body: trailers */
    }
    if (line.len > 0 && line.ptr[line.len - 1] == '\n') {
        line.len--;
    }
    if (line.len > 0 && line.ptr[line.len - 1] == '\r') {
        line.len--;
    }
    if (!head->in_block) {
        return read_status(head, line, max);
    }
    if (line.len > 0) {
        return is_space(line.ptr[0]) ? read_fold(head, line)
                                     : read_field(head, line);
    }
    head->in_block = false;
    if (head->status >= 200) {
        return complete(head);
    }
    /* Nothing was offered that could be switched to. */
    return head->status == 101 ? RO_NET_PROTOCOL : RO_NET_OK;
}

void
ro_head_view(const ro_head_reader *head, ro_head *view)
{
    view->status = head->status;
    view->version = head->version;
    view->reason = ro_slice_of(head->text.data, head->reason_len);
    view->headers = head->fields;
    view->n_headers = head->n_fields;
}

void
ro_head_free(ro_head_reader *head)
{
    ro_buf_free(&head->text);
    ro_free(head->fields);
    ro_free(head->fields_at);
    memset(head, 0, sizeof(*head));
}

/* ---- lists in field values ---- */

/* The next element of a comma-separated list, trimmed; false at the end. */
static bool
next_element(ro_slice *list, ro_slice *element)
{
    if (list->ptr == NULL) {
        return false;
    }
    const char *comma = memchr(list->ptr, ',', list->len);
    if (comma == NULL) {
        *element = trim(*list);
        list->ptr = NULL;
        return true;
    }
    size_t len = (size_t)(comma - list->ptr);
    *element = trim(ro_slice_of(list->ptr, len));
    list->ptr += len + 1;
    list->len -= len + 1;
    return true;
}

static unsigned
coding_of(ro_slice name)
{
    static const struct {
        const char *name;
        unsigned coding;
    } codings[] = {
        {"gzip", RO_CODING_GZIP},       {"x-gzip", RO_CODING_GZIP},
        {"deflate", RO_CODING_DEFLATE}, {"br", RO_CODING_BR},
        {"zstd", RO_CODING_ZSTD},       {"*", RO_CODING_ANY},
    };

    for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]); i++) {
        if (ro_name_is(name, codings[i].name)) {
            return codings[i].coding;
        }
    }
    return 0;
}

/* "q=0", "q=0.0", ... */
static bool
is_refused(ro_slice weight)
{
    weight = trim(weight);
    if (weight.len < 3 || (weight.ptr[0] != 'q' && weight.ptr[0] != 'Q')
        || weight.ptr[1] != '=') {
        return false;
    }
    for (size_t i = 2; i < weight.len; i++) {
        if (weight.ptr[i] != '0' && weight.ptr[i] != '.') {
            return false;
        }
    }
    return true;
}

unsigned
ro_codings_of(ro_slice accept)
{
    unsigned codings = 0;
    unsigned refused = 0;
    ro_slice element;

    while (next_element(&accept, &element)) {
        ro_slice name = element;
        const char *semicolon
            = element.len > 0 ? memchr(element.ptr, ';', element.len) : NULL;
        bool no = false;
        if (semicolon != NULL) {
            size_t len = (size_t)(semicolon - element.ptr);
            name = trim(ro_slice_of(element.ptr, len));
            no = is_refused(ro_slice_of(semicolon + 1, element.len - len - 1));
        }
        if (!no) {
            codings |= coding_of(name);
        }
        else if (coding_of(name) != RO_CODING_ANY) {
            refused |= coding_of(name);
        }
    }
    return codings & ~refused;
}

/* ---- what a complete head may say ---- */

/* The codings that this libcurl can undo. */
static unsigned
built_in(void)
{
    int features = curl_version_info(CURLVERSION_NOW)->features;
    unsigned codings = 0;

    if (features & CURL_VERSION_LIBZ) {
        codings |= RO_CODING_GZIP | RO_CODING_DEFLATE;
    }
    if (features & CURL_VERSION_BROTLI) {
        codings |= RO_CODING_BR;
    }
    if (features & CURL_VERSION_ZSTD) {
        codings |= RO_CODING_ZSTD;
    }
    return codings;
}

static ro_net_code
check_codings(ro_slice value, unsigned accepted)
{
    ro_slice element;

    while (next_element(&value, &element)) {
        if (element.len == 0 || ro_name_is(element, "identity")) {
            continue;
        }
        unsigned coding = coding_of(element);
        if (coding == 0 || coding == RO_CODING_ANY
            || (coding & accepted) == 0) {
            return RO_NET_ENCODING;
        }
    }
    return RO_NET_OK;
}

/* Digits alone, within 2^63-1: libcurl would take a sign, stop at the first
 * other character, and read to the end behind an overflow. */
static bool
is_length(ro_slice value)
{
    static const char most[] = "9223372036854775807";
    const size_t max = sizeof(most) - 1;

    for (size_t i = 0; i < value.len; i++) {
        if (digit(value.ptr[i]) < 0) {
            return false;
        }
    }
    return value.len > 0 && value.len <= max
           && (value.len < max || memcmp(value.ptr, most, max) <= 0);
}

/* What frames the body: one length, however often it is said, and one coding.
 * NULL so far. */
typedef struct framing {
    const ro_slice *length;
    const ro_slice *coding;
} framing;

static bool
add_framing(framing *so_far, const ro_header *field)
{
    const ro_slice *value = &field->value;

    if (ro_name_is(field->name, "content-length")) {
        if (!is_length(*value)
            || (so_far->length != NULL
                && !ro_slice_equal(*so_far->length, *value))) {
            return false;
        }
        so_far->length = value;
    }
    else if (ro_name_is(field->name, "transfer-encoding")) {
        if (so_far->coding != NULL || !ro_name_is(*value, "chunked")) {
            return false;
        }
        so_far->coding = value;
    }
    return true;
}

ro_net_code
ro_head_check(const ro_head_reader *head, unsigned codings, bool raw)
{
    framing framed = {NULL, NULL};
    unsigned accepted = codings & built_in();

    for (size_t i = 0; i < head->n_fields; i++) {
        const ro_header *field = &head->fields[i];
        if (!add_framing(&framed, field)) {
            return RO_NET_PROTOCOL;
        }
        if (!raw && ro_name_is(field->name, "content-encoding")
            && check_codings(field->value, accepted) != RO_NET_OK) {
            return RO_NET_ENCODING;
        }
    }
    return RO_NET_OK;
}
