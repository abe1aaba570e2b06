/* How a transfer ends: libcurl's codes and ours, one table. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "check.h"
#include "net/internal.h"

/* What libcurl says of the attempt: the status of a proxy's answer to CONNECT,
 * the errno of a connection that failed. */
static long connect_status;
static long os_errno;

#undef curl_easy_getinfo
CURLcode
curl_easy_getinfo(CURL *easy, CURLINFO info, ...)
{
    va_list arguments;
    (void)easy;
    va_start(arguments, info);
    long *number = va_arg(arguments, long *);
    va_end(arguments);
    *number = info == CURLINFO_OS_ERRNO ? os_errno : connect_status;
    return CURLE_OK;
}

static void
test_words_and_sentences(void)
{
    for (int i = 0; i < (int)RO_NET_CODE_COUNT; i++) {
        const char *word = ro_net_code_word((ro_net_code)i);
        const char *text = ro_net_code_text((ro_net_code)i);
        for (const char *c = word; *c != '\0'; c++) {
            CHECK(islower((unsigned char)*c) || *c == '_');
        }
        CHECK(isupper((unsigned char)text[0]));
        CHECK(text[strlen(text) - 1] == '.');
        for (int k = 0; k < i; k++) {
            CHECK(strcmp(word, ro_net_code_word((ro_net_code)k)) != 0);
            CHECK(strcmp(text, ro_net_code_text((ro_net_code)k)) != 0);
        }
    }
    CHECK(strcmp(ro_net_code_word(RO_NET_OK), "ok") == 0);
    /* outside the table */
    CHECK(strcmp(ro_net_code_word((ro_net_code)RO_NET_CODE_COUNT), "internal")
          == 0);
    CHECK(strcmp(ro_net_code_text((ro_net_code)-1), "The transport failed.")
          == 0);
}

typedef enum moment { BEFORE, SENT, ANSWERED } moment;

static const struct {
    int from;
    moment moment;
    ro_net_code code;
} mapped[] = {
    /* a head that breaks off is libcurl's success, too */
    {CURLE_OK, ANSWERED, RO_NET_OK},
    {CURLE_OK, SENT, RO_NET_RECEIVE},
    {CURLE_COULDNT_RESOLVE_HOST, BEFORE, RO_NET_RESOLVE},
    {CURLE_COULDNT_RESOLVE_PROXY, BEFORE, RO_NET_RESOLVE},
    {CURLE_COULDNT_CONNECT, BEFORE, RO_NET_CONNECT},
    {CURLE_INTERFACE_FAILED, BEFORE, RO_NET_CONNECT},
    {CURLE_PEER_FAILED_VERIFICATION, BEFORE, RO_NET_CERTIFICATE},
    {CURLE_SSL_ISSUER_ERROR, BEFORE, RO_NET_CERTIFICATE},
    {CURLE_SSL_INVALIDCERTSTATUS, BEFORE, RO_NET_CERTIFICATE},
    {CURLE_SSL_CONNECT_ERROR, BEFORE, RO_NET_TLS},
    {CURLE_SSL_CERTPROBLEM, BEFORE, RO_NET_TLS},
    {CURLE_SSL_CIPHER, BEFORE, RO_NET_TLS},
    {CURLE_USE_SSL_FAILED, BEFORE, RO_NET_TLS},
    {CURLE_SSL_CACERT_BADFILE, BEFORE, RO_NET_BAD_TRUST},
    {CURLE_OPERATION_TIMEDOUT, BEFORE, RO_NET_CONNECT_TIMEOUT},
    {CURLE_OPERATION_TIMEDOUT, SENT, RO_NET_READ_TIMEOUT},
    {CURLE_SEND_ERROR, BEFORE, RO_NET_CONNECT},
    {CURLE_SEND_ERROR, SENT, RO_NET_SEND},
    {CURLE_SEND_FAIL_REWIND, SENT, RO_NET_REPLAY},
    {CURLE_RECV_ERROR, BEFORE, RO_NET_CONNECT},
    {CURLE_RECV_ERROR, SENT, RO_NET_RECEIVE},
    {CURLE_GOT_NOTHING, SENT, RO_NET_RECEIVE},
    {CURLE_PARTIAL_FILE, ANSWERED, RO_NET_RECEIVE},
    {CURLE_BAD_CONTENT_ENCODING, ANSWERED, RO_NET_ENCODING},
    {CURLE_WRITE_ERROR, ANSWERED, RO_NET_ENCODING},
    {CURLE_WEIRD_SERVER_REPLY, SENT, RO_NET_PROTOCOL},
    {CURLE_HTTP2, SENT, RO_NET_PROTOCOL},
    {CURLE_HTTP2_STREAM, SENT, RO_NET_PROTOCOL},
    {CURLE_UNSUPPORTED_PROTOCOL, BEFORE, RO_NET_BAD_URL},
    {CURLE_UNSUPPORTED_PROTOCOL, SENT, RO_NET_PROTOCOL},
    {CURLE_BAD_FUNCTION_ARGUMENT, BEFORE, RO_NET_INTERNAL},
    {CURLE_BAD_FUNCTION_ARGUMENT, SENT, RO_NET_PROTOCOL},
    {CURLE_URL_MALFORMAT, BEFORE, RO_NET_BAD_URL},
    {97 /* CURLE_PROXY */, BEFORE, RO_NET_PROXY},
    /* a header line above libcurl's own bound, or no memory */
    {CURLE_OUT_OF_MEMORY, BEFORE, RO_NET_NO_MEMORY},
    {CURLE_OUT_OF_MEMORY, SENT, RO_NET_HEADERS_TOO_LARGE},
    {CURLE_OUT_OF_MEMORY, ANSWERED, RO_NET_NO_MEMORY},
    {100 /* CURLE_TOO_LARGE */, SENT, RO_NET_HEADERS_TOO_LARGE},
    {CURLE_FTP_ACCEPT_FAILED, SENT, RO_NET_INTERNAL},
    {CURLE_ABORTED_BY_CALLBACK, BEFORE, RO_NET_INTERNAL},
};

/* An attempt that has come so far. */
static ro_attempt
attempt_at(moment moment, ro_transfer *transfer)
{
    memset(transfer, 0, sizeof(*transfer));
    ro_attempt attempt
        = {.transfer = transfer, .sends = moment == BEFORE ? 0 : 1};
    attempt.head.complete = moment == ANSWERED;
    return attempt;
}

static void
test_each_code_of_libcurl(void)
{
    for (size_t i = 0; i < sizeof(mapped) / sizeof(mapped[0]); i++) {
        ro_transfer transfer;
        ro_attempt attempt = attempt_at(mapped[i].moment, &transfer);
        CURLcode from = (CURLcode)mapped[i].from;
        ro_net_code code = ro_net_map(&attempt, from);
        if (code != mapped[i].code) {
            fprintf(stderr, "%d: %s\n", mapped[i].from,
                    ro_net_code_word(code));
        }
        CHECK(code == mapped[i].code);
        /* why a callback stopped it comes first, whatever libcurl says */
        attempt.code = RO_NET_SINK;
        CHECK(ro_net_map(&attempt, from) == RO_NET_SINK);
    }
}

static void
test_what_only_details_tell(void)
{
    ro_transfer transfer;
    ro_attempt attempt = attempt_at(BEFORE, &transfer);

    os_errno = ECONNREFUSED;
    CHECK(ro_net_map(&attempt, CURLE_COULDNT_CONNECT) == RO_NET_REFUSED);
    os_errno = EHOSTUNREACH;
    CHECK(ro_net_map(&attempt, CURLE_COULDNT_CONNECT) == RO_NET_CONNECT);
    connect_status = 407;
    CHECK(ro_net_map(&attempt, CURLE_RECV_ERROR) == RO_NET_PROXY);
    connect_status = 0;
    CHECK(ro_net_map(&attempt, CURLE_RECV_ERROR) == RO_NET_CONNECT);

    static const struct {
        const char *error;
        ro_net_code code;
    } lost[] = {
        {"", RO_NET_RECEIVE},
        {"Recv failure: Connection reset by peer", RO_NET_RECEIVE},
        {"Illegal or missing hexadecimal sequence in chunked-encoding",
         RO_NET_PROTOCOL},
        {"Out of memory in chunked-encoding", RO_NET_HEADERS_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
        attempt = attempt_at(ANSWERED, &transfer);
        (void)snprintf(attempt.error, sizeof(attempt.error), "%s",
                       lost[i].error);
        CHECK(ro_net_map(&attempt, CURLE_RECV_ERROR) == lost[i].code);
    }
}

/* An upload that was complete before it began has opened the connection. */
static void
test_an_opened_connection(void)
{
    ro_transfer transfer;
    ro_attempt attempt = attempt_at(BEFORE, &transfer);

    CHECK(ro_net_map(&attempt, CURLE_PARTIAL_FILE) == RO_NET_RECEIVE);
    transfer.opens = true;
    CHECK(ro_net_map(&attempt, CURLE_PARTIAL_FILE) == RO_NET_OK);
    CHECK(ro_net_map(&attempt, CURLE_COULDNT_CONNECT) == RO_NET_CONNECT);
    CHECK(ro_net_map(&attempt, CURLE_OK) == RO_NET_RECEIVE);
}

int
main(void)
{
    test_words_and_sentences();
    test_each_code_of_libcurl();
    test_what_only_details_tell();
    test_an_opened_connection();
    return check_end();
}
