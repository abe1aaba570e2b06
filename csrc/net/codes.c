#include <errno.h>

#include "core/table.h"
#include "net/internal.h"

#define X(id, word, text) {word, text},
static const struct {
    const char *word;
    const char *text;
} codes[] = {RO_NET_CODES(X)};
#undef X

static size_t
row_of(ro_net_code code)
{
    return ro_row((unsigned)code, RO_NET_CODE_COUNT, RO_NET_INTERNAL);
}

const char *
ro_net_code_word(ro_net_code code)
{
    return codes[row_of(code)].word;
}

const char *
ro_net_code_text(ro_net_code code)
{
    return codes[row_of(code)].text;
}

static ro_net_code
map_lost(const ro_attempt *attempt)
{
    long answer = 0;

    if (attempt->sends > 0) {
        /* Cases with a code of their own only in the message. The first is a
         * trailer's line above what libcurl keeps of one. */
        if (strstr(attempt->error, "Out of memory in chunked-encoding")
            != NULL) {
            return RO_NET_HEADERS_TOO_LARGE;
        }
        return strstr(attempt->error, "chunked-encoding") != NULL
                   ? RO_NET_PROTOCOL
                   : RO_NET_RECEIVE;
    }
    curl_easy_getinfo(attempt->easy, CURLINFO_HTTP_CONNECTCODE, &answer);
    return answer != 0 ? RO_NET_PROXY : RO_NET_CONNECT;
}

static ro_net_code
map_unconnected(const ro_attempt *attempt)
{
    long number = 0;

    curl_easy_getinfo(attempt->easy, CURLINFO_OS_ERRNO, &number);
    return number == ECONNREFUSED ? RO_NET_REFUSED : RO_NET_CONNECT;
}

ro_net_code
ro_net_map(const ro_attempt *attempt, CURLcode code)
{
    bool sent = attempt->sends > 0;

    if (attempt->code != RO_NET_OK) {
        return attempt->code;
    }
    if (attempt->transfer->opens && ro_open_is_done(code)) {
        return RO_NET_OK;
    }
    switch ((int)code) {
    case CURLE_OK: /* also libcurl's word for a head that breaks off */
        return attempt->head.complete ? RO_NET_OK : RO_NET_RECEIVE;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return RO_NET_RESOLVE;
    case CURLE_COULDNT_CONNECT:
    case CURLE_INTERFACE_FAILED:
        return map_unconnected(attempt);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
        return RO_NET_CERTIFICATE;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_USE_SSL_FAILED:
        return RO_NET_TLS;
    case CURLE_SSL_CACERT_BADFILE:
        return RO_NET_BAD_TRUST;
    case CURLE_OPERATION_TIMEDOUT:
        return sent ? RO_NET_READ_TIMEOUT : RO_NET_CONNECT_TIMEOUT;
    case CURLE_SEND_ERROR:
        return sent ? RO_NET_SEND : RO_NET_CONNECT;
    case CURLE_SEND_FAIL_REWIND:
        return RO_NET_REPLAY;
    case CURLE_RECV_ERROR:
        return map_lost(attempt);
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        return RO_NET_RECEIVE;
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_WRITE_ERROR: /* of a decoder: our own set attempt->code */
        return RO_NET_ENCODING;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return RO_NET_PROTOCOL;
    case CURLE_UNSUPPORTED_PROTOCOL: /* later: HTTP/0.9 */
        return sent ? RO_NET_PROTOCOL : RO_NET_BAD_URL;
    case CURLE_BAD_FUNCTION_ARGUMENT: /* later: a field before the first one
                                         that continues it */
        return sent ? RO_NET_PROTOCOL : RO_NET_INTERNAL;
    case CURLE_URL_MALFORMAT:
        return RO_NET_BAD_URL;
    case 97: /* CURLE_PROXY, as from libcurl 7.73 */
        return RO_NET_PROXY;
    case CURLE_OUT_OF_MEMORY:
        /* libcurl's word for a header line above its own 100 KiB as well */
        return sent && !attempt->head.complete ? RO_NET_HEADERS_TOO_LARGE
                                               : RO_NET_NO_MEMORY;
    case 100: /* CURLE_TOO_LARGE, as from libcurl 8.6: a line or the head */
        return RO_NET_HEADERS_TOO_LARGE;
    default:
        return RO_NET_INTERNAL;
    }
}
