/* A submitted request: checked, and copied into one transfer. */
#include "net/internal.h"

#include "core/alloc.h"
#include "core/limits.h"

static bool
is_number(ro_slice text, size_t number)
{
    size_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c < '0' || c > '9' || value > SIZE_MAX / 10 - 10) {
            return false;
        }
        value = value * 10 + (size_t)(c - '0');
    }
    return text.len > 0 && value == number;
}

static bool
is_blank(ro_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != ' ' && text.ptr[i] != '\t') {
            return false;
        }
    }
    return true;
}

static bool
check_header(const ro_header *header, bool has_body, size_t body_len)
{
    ro_slice value = header->value;

    if (!ro_is_token(header->name) || header->name.len > RO_MAX_HEADER_VALUE
        || value.len > RO_MAX_HEADER_VALUE) {
        return false;
    }
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] == '\r' || value.ptr[i] == '\n'
            || value.ptr[i] == '\0') {
            return false;
        }
    }
    if (value.len > 0 && is_blank(value)) {
        return false; /* libcurl would leave the header out */
    }
    if (ro_name_is(header->name, "transfer-encoding")) {
        return false;
    }
    if (ro_name_is(header->name, "content-length")) {
        return has_body && is_number(value, body_len);
    }
    return true;
}

static ro_net_code
check(const ro_request *request)
{
    ro_slice method = ro_slice_str(request->method);

    /* libcurl would open a tunnel for CONNECT, and drop a HEAD's body. */
    if (!ro_is_token(method) || method.len > RO_NET_MAX_METHOD
        || ro_name_is(method, "connect")
        || (request->has_body && ro_name_is(method, "head"))
        || request->n_headers > RO_NET_MAX_REQUEST_HEADERS) {
        return RO_NET_BAD_HEADER;
    }
    size_t n_host = 0;
    for (size_t i = 0; i < request->n_headers; i++) {
        if (!check_header(&request->headers[i], request->has_body,
                          request->body.len)) {
            return RO_NET_BAD_HEADER;
        }
        n_host += ro_name_is(request->headers[i].name, "host");
    }
    if (n_host > 1) {
        return RO_NET_BAD_HEADER; /* only the first would be sent */
    }
    if (request->opens && !ro_open_is_possible()) {
        return RO_NET_INTERNAL;
    }
    return ro_net_check_proxy(request->proxy);
}

/* libcurl's spelling: "Name: value", "Name;" for an empty value, and "Name:"
 * for one that is not to be sent. */
static char *
spell(const ro_header *header, bool off)
{
    size_t name = header->name.len;
    size_t value = header->value.len;
    char *line = ro_malloc(name + value + 3);

    if (line == NULL) {
        return NULL;
    }
    memcpy(line, header->name.ptr, name);
    if (value == 0) {
        line[name] = off ? ':' : ';';
        line[name + 1] = '\0';
        return line;
    }
    line[name] = ':';
    line[name + 1] = ' ';
    memcpy(line + name + 2, header->value.ptr, value);
    line[name + value + 2] = '\0';
    return line;
}

static bool
has_header(const ro_request *request, const char *lower)
{
    for (size_t i = 0; i < request->n_headers; i++) {
        if (ro_name_is(request->headers[i].name, lower)) {
            return true;
        }
    }
    return false;
}

/* The request's headers, behind those that libcurl would add by itself: a
 * line without a value keeps such a one out. */
static bool
copy_headers(ro_transfer *transfer, const ro_request *request)
{
    static const char *const added[] = {"accept", "accept-encoding", "expect",
                                        "content-type", "proxy-connection"};
    const size_t n_added = sizeof(added) / sizeof(added[0]);
    size_t n = 0;

    transfer->headers
        = ro_calloc(n_added + request->n_headers, sizeof(*transfer->headers));
    if (transfer->headers == NULL) {
        return false;
    }
    for (size_t i = 0; i < n_added + request->n_headers; i++) {
        ro_header off = {0};
        const ro_header *header = &off;
        if (i >= n_added) {
            header = &request->headers[i - n_added];
        }
        else if (has_header(request, added[i])) {
            continue;
        }
        else {
            off.name = ro_slice_str(added[i]);
        }
        char *line = spell(header, i < n_added);
        if (line == NULL) {
            return false;
        }
        transfer->headers[n].data = line;
        if (n > 0) {
            transfer->headers[n - 1].next = &transfer->headers[n];
        }
        transfer->n_headers = ++n;
        if (ro_name_is(header->name, "accept-encoding")) {
            transfer->codings |= ro_codings_of(header->value);
        }
    }
    return true;
}

static char *
copy_text(const char *text)
{
    return ro_memdup(text, strlen(text));
}

/* What else decides whether a connection can be shared. */
static char *
copy_destination(const ro_request *request, const char *base)
{
    ro_slice parts[] = {
        ro_slice_str(base),
        ro_slice_str(request->proxy),
        ro_slice_str(request->cafile),
        ro_slice_str(request->capath),
    };
    size_t len = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        len += parts[i].len + 1;
    }
    char *destination = ro_malloc(len);
    if (destination == NULL) {
        return NULL;
    }
    char *end = destination;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        memcpy(end, parts[i].ptr, parts[i].len);
        end[parts[i].len] = '\n';
        end += parts[i].len + 1;
    }
    end[-1] = '\0';
    return destination;
}

static bool
copy(ro_transfer *transfer, const ro_request *request, const char *base)
{
    transfer->method = copy_text(request->method);
    transfer->url = copy_text(request->url);
    transfer->proxy = copy_text(request->proxy);
    transfer->cafile = copy_text(request->cafile);
    transfer->capath = copy_text(request->capath);
    transfer->destination = copy_destination(request, base);
    transfer->body = ro_memdup(request->body.ptr, request->body.len);
    if (transfer->method == NULL || transfer->url == NULL
        || transfer->proxy == NULL || transfer->cafile == NULL
        || transfer->capath == NULL || transfer->destination == NULL
        || transfer->body == NULL || !copy_headers(transfer, request)) {
        return false;
    }
    transfer->body_len = request->body.len;
    transfer->has_body = request->has_body;
    transfer->connect_ms = request->connect_ms;
    transfer->read_ms = request->read_ms;
    transfer->write_ms = request->write_ms;
    transfer->max_headers = request->max_headers;
    transfer->http2 = request->http2;
    transfer->fresh = request->fresh;
    transfer->raw = request->raw;
    transfer->sending = request->sending;
    transfer->opens = request->opens;
    return true;
}

ro_net_code
ro_transfer_new(ro_net *net, const ro_request *request, const ro_sink *sink,
                ro_transfer **out)
{
    char *base = NULL;
    ro_net_code code = check(request);

    if (code == RO_NET_OK) {
        code = ro_net_check_url(request->url, &base);
    }
    if (code != RO_NET_OK) {
        return code;
    }
    ro_transfer *transfer = ro_calloc(1, sizeof(*transfer));
    if (transfer == NULL) {
        ro_free(base);
        return RO_NET_NO_MEMORY;
    }
    atomic_init(&transfer->refs, 1);
    atomic_init(&transfer->cancelled, false);
    transfer->net = net;
    transfer->sink = *sink;
    bool ok = copy(transfer, request, base);
    ro_free(base);
    if (!ok) {
        ro_transfer_release(transfer);
        return RO_NET_NO_MEMORY;
    }
    *out = transfer;
    return RO_NET_OK;
}
