/* What a request may be, and when two are the same. */
#include "mcp/request.h"
#include "net_rig.h"

#include "net/internal.h"

/* ---- what may be sent ---- */

static ro_net_code
check_one(ro_net *net, const ro_request *request)
{
    struct answer answer;
    ro_transfer *transfer = NULL;
    answer_reset(&answer);
    ro_net_code code = submit(net, request, &answer, &transfer);
    CHECK((transfer != NULL) == (code == RO_NET_OK));
    if (code == RO_NET_OK) { /* nobody is there: it was only to be taken */
        CHECK(answer_await(&answer, &answer.done));
        CHECK(answer.code == RO_NET_REFUSED);
    }
    CHECK(answer.n_done == (code == RO_NET_OK));
    ro_transfer_release(transfer);
    return code;
}

static void
test_methods(void)
{
    static const struct {
        const char *method;
        const char *body;
        ro_net_code code;
    } cases[] = {
        {"GET", NULL, RO_NET_OK},
        {"PROPFIND", "x", RO_NET_OK},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF", NULL, RO_NET_OK},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG", NULL, RO_NET_BAD_HEADER},
        {"", NULL, RO_NET_BAD_HEADER},
        {"GE T", NULL, RO_NET_BAD_HEADER},
        {"CONNECT", NULL, RO_NET_BAD_HEADER},
        {"connect", NULL, RO_NET_BAD_HEADER},
        {"HEAD", NULL, RO_NET_OK},
        {"HEAD", "x", RO_NET_BAD_HEADER},
        {"head", "x", RO_NET_BAD_HEADER},
    };
    ro_net *net = ro_net_new();
    _Static_assert(RO_NET_MAX_METHOD == 32, "as long as the third");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_request request = request_of(cases[i].method, "http://127.0.0.1:1/",
                                        cases[i].body);
        CHECK(check_one(net, &request) == cases[i].code);
    }
    net_end(net);
}

static void
test_headers(void)
{
    static const struct {
        const char *name;
        const char *value;
        const char *body;
        ro_net_code code;
    } cases[] = {
        {"X", "", NULL, RO_NET_OK},
        {"X", "a b", NULL, RO_NET_OK},
        {"X", "\t", NULL, RO_NET_BAD_HEADER},
        {"X", " \t ", NULL, RO_NET_BAD_HEADER},
        {"X", "\ta", NULL, RO_NET_OK},
        {"Host", "example.test", NULL, RO_NET_OK},
        {"Content-Length", "4", "body", RO_NET_OK},
        {"Content-Length", "04", "body", RO_NET_OK},
        {"Content-Length", "0", "", RO_NET_OK},
        {"Content-Length", "0", NULL, RO_NET_BAD_HEADER},
        {"Content-Length", "", "", RO_NET_BAD_HEADER},
        {"Content-Length", "3", "body", RO_NET_BAD_HEADER},
        {"Content-Length", "4x", "body", RO_NET_BAD_HEADER},
        {"Content-Length", "+4", "body", RO_NET_BAD_HEADER},
        {"Content-Length", "18446744073709551620", "body",
         RO_NET_BAD_HEADER}, /* 4, if it wrapped */
        {"Transfer-Encoding", "chunked", "body", RO_NET_BAD_HEADER},
    };
    ro_net *net = ro_net_new();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_request request
            = request_of("POST", "http://127.0.0.1:1/", cases[i].body);
        ro_header header
            = {ro_slice_str(cases[i].name), ro_slice_str(cases[i].value)};
        request.headers = &header;
        request.n_headers = 1;
        CHECK(check_one(net, &request) == cases[i].code);
    }

    ro_header many[RO_NET_MAX_REQUEST_HEADERS + 1];
    ro_request request = request_of("GET", "http://127.0.0.1:1/", NULL);
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
        many[i] = (ro_header){ro_slice_str("X"), ro_slice_str("y")};
    }
    request.headers = many;
    request.n_headers = RO_NET_MAX_REQUEST_HEADERS;
    CHECK(check_one(net, &request) == RO_NET_OK);
    request.n_headers++;
    CHECK(check_one(net, &request) == RO_NET_BAD_HEADER);

    /* one Host, whatever its spelling */
    ro_header hosts[] = {{ro_slice_str("Host"), ro_slice_str("a")},
                         {ro_slice_str("hOST"), ro_slice_str("a")}};
    request.headers = hosts;
    request.n_headers = 2;
    CHECK(check_one(net, &request) == RO_NET_BAD_HEADER);
    request.n_headers = 1;
    CHECK(check_one(net, &request) == RO_NET_OK);

    /* as long as a name and a value may be, and one byte more */
    static char text[RO_MAX_HEADER_VALUE + 1];
    memset(text, 'n', sizeof(text));
    for (size_t over = 0; over <= 1; over++) {
        ro_header longest[] = {
            {ro_slice_of(text, RO_MAX_HEADER_VALUE + over), ro_slice_str("v")},
            {ro_slice_str("X"), ro_slice_of(text, RO_MAX_HEADER_VALUE + over)},
        };
        for (size_t i = 0; i < 2; i++) {
            request.headers = &longest[i];
            CHECK(check_one(net, &request)
                  == (over ? RO_NET_BAD_HEADER : RO_NET_OK));
        }
    }
    net_end(net);
}

/* ---- the same ---- */

/* What a request is made of, one thing changed at a time: an answer that was
 * fetched ahead is for the same request alone. */
static void
test_the_same_request(void)
{
    ro_header headers[] = {{ro_slice_str("A"), ro_slice_str("1")},
                           {ro_slice_str("B"), ro_slice_str("2")}};
    ro_header values[] = {{ro_slice_str("A"), ro_slice_str("1")},
                          {ro_slice_str("B"), ro_slice_str("3")}};
    ro_header names[] = {{ro_slice_str("A"), ro_slice_str("1")},
                         {ro_slice_str("C"), ro_slice_str("2")}};
    ro_request one = request_of("POST", "http://h/", "body");
    one.headers = headers;
    one.n_headers = 2;
    one.sending = RO_SEND_AGAIN;

    for (int i = 0; i < 12; i++) {
        ro_request other = one;
        switch (i) {
        case 1:
            other.method = "PUT";
            break;
        case 2:
            other.url = "http://h/x";
            break;
        case 3:
            other.proxy = "http://p";
            break;
        case 4:
            other.cafile = "/a";
            break;
        case 5:
            other.capath = "/a";
            break;
        case 6:
            other.has_body = false;
            break;
        case 7:
            other.body = ro_slice_str("bodY");
            break;
        case 8:
            other.sending = RO_SEND_WARY;
            break;
        case 9:
            other.n_headers = 1;
            break;
        case 10:
            other.headers = values;
            break;
        case 11:
            other.headers = names;
            break;
        default:
            break;
        }
        CHECK(ro_request_is_same(&one, &other) == (i == 0));
        CHECK(ro_request_is_same(&other, &one) == (i == 0));
    }
}

int
main(void)
{
    test_methods();
    test_headers();
    test_the_same_request();
    return check_end();
}
