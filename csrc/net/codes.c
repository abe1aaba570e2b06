#include "net/internal.h"

const char *
ro_net_code_text(ro_net_code code)
{
    switch (code) {
    case RO_NET_OK:
        return "The transfer succeeded.";
    case RO_NET_CANCELLED:
        return "The transfer was cancelled.";
    case RO_NET_SHUT_DOWN:
        return "The transport is closed.";
    case RO_NET_FORKED:
        return "The transport was made by another process.";
    case RO_NET_NO_MEMORY:
        return "Out of memory.";
    case RO_NET_BAD_URL:
        return "The URL cannot be used.";
    case RO_NET_BAD_HEADER:
        return "The method or a header of the request cannot be sent.";
    case RO_NET_BAD_PROXY:
        return "The proxy URL cannot be used; only http and https are.";
    case RO_NET_BAD_TRUST:
        return "The trusted certificates cannot be read.";
    case RO_NET_RESOLVE:
        return "The host name could not be resolved.";
    case RO_NET_CONNECT:
        return "The connection could not be made.";
    case RO_NET_TLS:
        return "TLS could not be established with a trusted peer.";
    case RO_NET_PROXY:
        return "The proxy refused the connection.";
    case RO_NET_SEND:
        return "The request could not be sent.";
    case RO_NET_RECEIVE:
        return "The connection was lost before the answer was complete.";
    case RO_NET_PROTOCOL:
        return "The answer is not valid HTTP.";
    case RO_NET_ENCODING:
        return "The content coding is unknown or broken.";
    case RO_NET_HEADERS_TOO_LARGE:
        return "The response headers exceed their limit.";
    case RO_NET_REPLAY:
        return "The connection was lost and the request is not sent twice.";
    case RO_NET_CONNECT_TIMEOUT:
        return "The connection was not made in time.";
    case RO_NET_READ_TIMEOUT:
        return "Nothing was received in time.";
    case RO_NET_WRITE_TIMEOUT:
        return "The request could not be sent in time.";
    case RO_NET_SINK:
        return "The receiver refused the answer.";
    case RO_NET_INTERNAL:
        return "The transport failed.";
    }
    return "The transport failed.";
}

static ro_net_code
map_lost(const ro_flight *flight)
{
    long answer = 0;

    if (flight->sends > 0) {
        /* The one case with a code of its own only in the message. */
        return strstr(flight->error, "chunked-encoding") != NULL
                   ? RO_NET_PROTOCOL
                   : RO_NET_RECEIVE;
    }
    curl_easy_getinfo(flight->easy, CURLINFO_HTTP_CONNECTCODE, &answer);
    return answer != 0 ? RO_NET_PROXY : RO_NET_CONNECT;
}

ro_net_code
ro_net_map(const ro_flight *flight, CURLcode code)
{
    bool sent = flight->sends > 0;

    if (flight->code != RO_NET_OK) {
        return flight->code;
    }
    switch ((int)code) {
    case CURLE_OK: /* also libcurl's word for a head that breaks off */
        return flight->head.complete ? RO_NET_OK : RO_NET_RECEIVE;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return RO_NET_RESOLVE;
    case CURLE_COULDNT_CONNECT:
    case CURLE_INTERFACE_FAILED:
        return RO_NET_CONNECT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_USE_SSL_FAILED:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
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
        return map_lost(flight);
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        return RO_NET_RECEIVE;
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_WRITE_ERROR: /* of a decoder: our own set flight->code */
        return RO_NET_ENCODING;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return RO_NET_PROTOCOL;
    case CURLE_UNSUPPORTED_PROTOCOL: /* later: HTTP/0.9 */
        return sent ? RO_NET_PROTOCOL : RO_NET_BAD_URL;
    case CURLE_URL_MALFORMAT:
        return RO_NET_BAD_URL;
    case 97: /* CURLE_PROXY, as from libcurl 7.73 */
        return RO_NET_PROXY;
    case CURLE_OUT_OF_MEMORY:
        /* libcurl's word for a header line above its own 100 KiB as well */
        return sent && !flight->head.complete ? RO_NET_HEADERS_TOO_LARGE
                                              : RO_NET_NO_MEMORY;
    case 100: /* CURLE_TOO_LARGE, as from libcurl 8.6: a line or the head */
        return RO_NET_HEADERS_TOO_LARGE;
    default:
        return RO_NET_INTERNAL;
    }
}
