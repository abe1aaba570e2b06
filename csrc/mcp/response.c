#include "mcp/response.h"

#include "net/location.h"

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool
type_is(const ro_head *head, const char *type)
{
    ro_slice value;
    size_t len = strlen(type);
    if (!ro_header_find(head->headers, head->n_headers, "content-type",
                        &value)) {
        return false;
    }
    while (value.len != 0 && is_blank(*value.ptr)) {
        value.ptr++;
        value.len--;
    }
    if (value.len < len
        || !ro_header_name_is(ro_slice_of(value.ptr, len), type)) {
        return false;
    }
    return value.len == len || value.ptr[len] == ';' || value.ptr[len] == ','
           || is_blank(value.ptr[len]);
}

static bool
has_location(const ro_head *head, ro_slice *where)
{
    return ro_header_find(head->headers, head->n_headers, "location", where);
}

ro_response
ro_response_of(const ro_head *head)
{
    ro_slice where;
    switch (head->status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
        return has_location(head, &where) ? RO_RESPONSE_REDIRECT
                                          : RO_RESPONSE_FAILURE;
    case 401:
    case 403:
        return RO_RESPONSE_CHALLENGE;
    case 202:
    case 204:
        return RO_RESPONSE_EMPTY;
    default:
        return head->status < 200 || head->status > 299 ? RO_RESPONSE_FAILURE
               : type_is(head, "text/event-stream")     ? RO_RESPONSE_EVENTS
               : type_is(head, "application/json")      ? RO_RESPONSE_JSON
                                                        : RO_RESPONSE_OTHER;
    }
}

bool
ro_response_is_success(ro_response response)
{
    return response >= RO_RESPONSE_EMPTY;
}

ro_reason
ro_response_reason(const ro_head *head)
{
    return ro_response_of(head) > RO_RESPONSE_EMPTY
               ? RO_REASON_NOT_MCP
               : ro_reason_of_status(head->status);
}

ro_reason
ro_reason_of_status(long status)
{
    switch (status) {
    case 401:
        return RO_REASON_HTTP_401;
    case 403:
        return RO_REASON_HTTP_403;
    case 404:
        return RO_REASON_HTTP_404;
    default:
        return status >= 500   ? RO_REASON_HTTP_5XX
               : status >= 400 ? RO_REASON_HTTP_4XX
               : status >= 300 ? RO_REASON_REDIRECTED
                               : RO_REASON_NO_ANSWER;
    }
}

char *
ro_response_leads_to(const char *url, const ro_head *head, bool get)
{
    ro_slice where;
    /* 301 to 303 turn a POST into a GET, which drops its message. */
    bool keeps = get || head->status == 307 || head->status == 308;
    if (!keeps || ro_response_of(head) != RO_RESPONSE_REDIRECT
        || !has_location(head, &where)) {
        return NULL;
    }
    return ro_location_resolve(url, where);
}

bool
ro_response_keep(ro_header_list *list, const ro_head *head)
{
    static const char *const framing[]
        = {"content-length", "content-encoding", "transfer-encoding"};
    if (!ro_header_list_copy(list, head->headers, head->n_headers)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(framing) / sizeof(framing[0]); i++) {
        ro_header_list_drop(list, ro_slice_str(framing[i]));
    }
    return true;
}
