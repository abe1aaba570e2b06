/* What the head of a response means. */
#include "mcp/response.h"

#include "check.h"
#include "core/alloc.h"

static void
test_content_types(void)
{
    static const struct {
        const char *value; /* NULL: none */
        ro_response response;
    } cases[] = {
        {"text/event-stream", RO_RESPONSE_EVENTS},
        {"text/event-stream; charset=utf-8", RO_RESPONSE_EVENTS},
        {"text/event-stream;charset=utf-8", RO_RESPONSE_EVENTS},
        {" Text/Event-Stream\t", RO_RESPONSE_EVENTS},
        {"text/event-stream, text/html", RO_RESPONSE_EVENTS},
        {"text/event-streams", RO_RESPONSE_OTHER},
        {"text/event-stream+x", RO_RESPONSE_OTHER},
        {"text/event-strea", RO_RESPONSE_OTHER},
        {"application/json", RO_RESPONSE_JSON},
        {"APPLICATION/JSON; charset=\"utf-8\"", RO_RESPONSE_JSON},
        {"application/json-rpc", RO_RESPONSE_OTHER},
        {"text/html", RO_RESPONSE_OTHER},
        {"", RO_RESPONSE_OTHER},
        {NULL, RO_RESPONSE_OTHER},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_header headers[] = {
            {ro_slice_str("Date"), ro_slice_str("text/event-stream")},
            {ro_slice_str("content-TYPE"),
             ro_slice_str(cases[i].value == NULL ? "" : cases[i].value)},
        };
        ro_head head = {
            .status = 200,
            .headers = headers,
            .n_headers = cases[i].value == NULL ? 1 : 2,
        };
        CHECK(ro_response_of(&head) == cases[i].response);
    }
}

/* An event stream by its type, with a place to go to. */
static void
test_statuses(void)
{
    static const struct {
        long status;
        ro_response response;
        ro_reason reason; /* when something else was wanted */
    } cases[] = {
        {200, RO_RESPONSE_EVENTS, RO_REASON_NOT_MCP},
        {201, RO_RESPONSE_EVENTS, RO_REASON_NOT_MCP},
        {202, RO_RESPONSE_EMPTY, RO_REASON_NO_ANSWER},
        {203, RO_RESPONSE_EVENTS, RO_REASON_NOT_MCP},
        {204, RO_RESPONSE_EMPTY, RO_REASON_NO_ANSWER},
        {299, RO_RESPONSE_EVENTS, RO_REASON_NOT_MCP},
        {300, RO_RESPONSE_FAILURE, RO_REASON_REDIRECTED},
        {301, RO_RESPONSE_REDIRECT, RO_REASON_REDIRECTED},
        {302, RO_RESPONSE_REDIRECT, RO_REASON_REDIRECTED},
        {303, RO_RESPONSE_REDIRECT, RO_REASON_REDIRECTED},
        {304, RO_RESPONSE_FAILURE, RO_REASON_REDIRECTED},
        {307, RO_RESPONSE_REDIRECT, RO_REASON_REDIRECTED},
        {308, RO_RESPONSE_REDIRECT, RO_REASON_REDIRECTED},
        {400, RO_RESPONSE_FAILURE, RO_REASON_HTTP_4XX},
        {401, RO_RESPONSE_CHALLENGE, RO_REASON_HTTP_401},
        {403, RO_RESPONSE_CHALLENGE, RO_REASON_HTTP_403},
        {404, RO_RESPONSE_FAILURE, RO_REASON_HTTP_404},
        {405, RO_RESPONSE_FAILURE, RO_REASON_HTTP_4XX},
        {499, RO_RESPONSE_FAILURE, RO_REASON_HTTP_4XX},
        {500, RO_RESPONSE_FAILURE, RO_REASON_HTTP_5XX},
        {503, RO_RESPONSE_FAILURE, RO_REASON_HTTP_5XX},
    };
    ro_header headers[] = {
        {ro_slice_str("Content-Type"), ro_slice_str("text/event-stream")},
        {ro_slice_str("Location"), ro_slice_str("/there")},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_head head
            = {.status = cases[i].status, .headers = headers, .n_headers = 2};
        CHECK(ro_response_of(&head) == cases[i].response);
        CHECK(ro_response_reason(&head) == cases[i].reason);
        CHECK(ro_response_is_success(cases[i].response)
              == (cases[i].status < 300));
        head.n_headers = 1; /* to nowhere */
        CHECK(ro_response_of(&head)
              == (cases[i].response == RO_RESPONSE_REDIRECT
                      ? RO_RESPONSE_FAILURE
                      : cases[i].response));
    }
}

static void
test_where_a_redirect_leads(void)
{
    static const struct {
        long status;
        const char *location;
        const char *post; /* NULL: nowhere */
        const char *get;
    } cases[] = {
        {307, "/b", "http://h/b", "http://h/b"},
        {308, "b?x", "http://h/b?x", "http://h/b?x"},
        {301, "/b", NULL, "http://h/b"},
        {302, "/b", NULL, "http://h/b"},
        {303, "/b", NULL, "http://h/b"},
        {300, "/b", NULL, NULL},
        {200, "/b", NULL, NULL},
        {307, "http://other/b", NULL, NULL},
        {307, "https://h/b", NULL, NULL},
        {307, "http://h:81/b", NULL, NULL},
        {307, "http://u@h/b", NULL, NULL},
        {307, "http://h:80/b", "http://h:80/b", "http://h:80/b"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_header header
            = {ro_slice_str("location"), ro_slice_str(cases[i].location)};
        ro_head head
            = {.status = cases[i].status, .headers = &header, .n_headers = 1};
        for (int get = 0; get < 2; get++) {
            const char *wanted = get ? cases[i].get : cases[i].post;
            char *url = ro_response_leads_to("http://h/a", &head, get != 0);
            CHECK((url == NULL) == (wanted == NULL)
                  && (url == NULL || strcmp(url, wanted) == 0));
            ro_free(url);
        }
    }
}

static void
test_what_framed_the_body_is_left_out(void)
{
    ro_header headers[] = {
        {ro_slice_str("Content-Length"), ro_slice_str("5")},
        {ro_slice_str("Set-Cookie"), ro_slice_str("a=b")},
        {ro_slice_str("Content-Encoding"), ro_slice_str("gzip")},
        {ro_slice_str("Content-Type"), ro_slice_str("text/html")},
        {ro_slice_str("transfer-encoding"), ro_slice_str("chunked")},
    };
    ro_head head = {.status = 401, .headers = headers, .n_headers = 5};
    ro_header_list list = {NULL, 0, 0};
    CHECK(ro_response_keep(&list, &head));
    CHECK(list.count == 2
          && ro_header_name_is(list.items[0].name, "set-cookie")
          && ro_header_name_is(list.items[1].name, "content-type"));
    ro_header_list_free(&list);
    size_t before = ro_alloc_live();
    bool kept = false;
    for (size_t nth = 1; !kept; nth++) {
        ro_alloc_fail_at(nth, 1);
        kept = ro_response_keep(&list, &head);
        CHECK(nth > 1 || !kept);
        ro_alloc_fail_at(0, 0);
        ro_header_list_free(&list);
        CHECK(ro_alloc_live() == before);
    }
}

int
main(void)
{
    test_content_types();
    test_statuses();
    test_where_a_redirect_leads();
    test_what_framed_the_body_is_left_out();
    return check_end();
}
