/* What libcurl is told, and what it is never asked to look up itself. */
#include "net/internal.h"

#include <limits.h>
#include <stdio.h>

#include "core/alloc.h"
#include "core/limits.h"

/* ---- URLs ---- */

static bool
is_printable(const char *text, size_t max)
{
    size_t len = 0;
    for (; text[len] != '\0'; len++) {
        if (len == max || text[len] <= 0x20 || text[len] >= 0x7f) {
            return false;
        }
    }
    return len > 0;
}

/* What a URL says about where to go. */
typedef struct url_parts {
    char *scheme;
    char *host;
    char *port; /* the default one when the URL has none */
    char *user; /* decoded; "" when the URL has none */
    char *password;
} url_parts;

static void
free_parts(url_parts *at)
{
    ro_free(at->scheme);
    ro_free(at->host);
    ro_free(at->port);
    ro_free(at->user);
    ro_free(at->password);
}

/* "" when the URL has no such part. */
static ro_net_code
read_part(CURLU *url, CURLUPart what, unsigned flags, ro_net_code bad,
          char **part)
{
    char *text = NULL;
    CURLUcode code = curl_url_get(url, what, &text, flags);

    switch (code) {
    case CURLUE_OK:
        *part = ro_memdup(text, strlen(text));
        break;
    case CURLUE_NO_USER:
    case CURLUE_NO_PASSWORD:
        *part = ro_memdup("", 0);
        break;
    case CURLUE_OUT_OF_MEMORY:
        return RO_NET_NO_MEMORY;
    default:
        return bad;
    }
    curl_free(text);
    return *part != NULL ? RO_NET_OK : RO_NET_NO_MEMORY;
}

static ro_net_code
read_parts(CURLU *url, ro_net_code bad, url_parts *at)
{
    const struct {
        CURLUPart what;
        unsigned flags;
        char **part;
    } parts[] = {
        {CURLUPART_SCHEME, 0, &at->scheme},
        {CURLUPART_HOST, 0, &at->host},
        {CURLUPART_PORT, CURLU_DEFAULT_PORT, &at->port},
        {CURLUPART_USER, CURLU_URLDECODE, &at->user},
        {CURLUPART_PASSWORD, CURLU_URLDECODE, &at->password},
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        ro_net_code code = read_part(url, parts[i].what, parts[i].flags, bad,
                                     parts[i].part);
        if (code != RO_NET_OK) {
            return code;
        }
    }
    if ((strcmp(at->scheme, "http") != 0 && strcmp(at->scheme, "https") != 0)
        || at->host[0] == '\0' || strcmp(at->port, "0") == 0) {
        return bad;
    }
    return RO_NET_OK;
}

/* free_parts is needed in any case. */
static ro_net_code
read_url(const char *text, ro_net_code bad, url_parts *at)
{
    ro_net_code code = bad;

    memset(at, 0, sizeof(*at));
    if (!is_printable(text, RO_MAX_URL)) {
        return bad;
    }
    CURLU *url = curl_url();
    if (url == NULL) {
        return RO_NET_NO_MEMORY;
    }
    switch (curl_url_set(url, CURLUPART_URL, text, CURLU_PATH_AS_IS)) {
    case CURLUE_OK:
        code = read_parts(url, bad, at);
        break;
    case CURLUE_OUT_OF_MEMORY:
        code = RO_NET_NO_MEMORY;
        break;
    default:
        break;
    }
    curl_url_cleanup(url);
    return code;
}

/* "scheme://host:port"; NULL when out of memory. */
static char *
base_of(const url_parts *at)
{
    size_t size = strlen(at->scheme) + strlen(at->host) + strlen(at->port) + 5;
    char *base = ro_malloc(size);

    if (base != NULL) {
        (void)snprintf(base, size, "%s://%s:%s", at->scheme, at->host,
                       at->port);
    }
    return base;
}

ro_net_code
ro_net_check_url(const char *url, char **base)
{
    url_parts at;

    *base = NULL;
    ro_net_code code = read_url(url, RO_NET_BAD_URL, &at);
    if (code == RO_NET_OK && (at.user[0] != '\0' || at.password[0] != '\0')) {
        code = RO_NET_BAD_URL;
    }
    if (code == RO_NET_OK) {
        *base = base_of(&at);
        code = *base != NULL ? RO_NET_OK : RO_NET_NO_MEMORY;
    }
    free_parts(&at);
    return code;
}

ro_net_code
ro_net_check_proxy(const char *proxy)
{
    url_parts at;

    if (proxy[0] == '\0') {
        return RO_NET_OK;
    }
    ro_net_code code = read_url(proxy, RO_NET_BAD_PROXY, &at);
    free_parts(&at);
    return code;
}

/* ---- options ---- */

#define SET(option, value)                                                    \
    do {                                                                      \
        if (curl_easy_setopt(easy, option, value) != CURLE_OK) {              \
            return false;                                                     \
        }                                                                     \
    } while (0)

static bool
set_proxy_url(CURL *easy, const url_parts *at)
{
    /* The port is spelled out: libcurl's own default is 1080. */
    char *base = base_of(at);

    if (base == NULL) {
        return false;
    }
    CURLcode code = curl_easy_setopt(easy, CURLOPT_PROXY, base);
    ro_free(base);
    if (code != CURLE_OK) {
        return false;
    }
    if (at->user[0] != '\0' || at->password[0] != '\0') {
        SET(CURLOPT_PROXYUSERNAME, at->user);
        SET(CURLOPT_PROXYPASSWORD, at->password);
    }
    return true;
}

static bool
set_proxy(CURL *easy, const char *proxy)
{
    url_parts at;

    if (proxy[0] == '\0') {
        SET(CURLOPT_PROXY, "");
        return true;
    }
    bool ok = read_url(proxy, RO_NET_BAD_PROXY, &at) == RO_NET_OK
              && set_proxy_url(easy, &at);
    free_parts(&at);
    return ok;
}

static const char *
or_null(const char *path)
{
    return path[0] != '\0' ? path : NULL;
}

/* Always both: libcurl keeps its built-in directory beside a given file. */
static bool
set_trust(CURL *easy, const ro_transfer *transfer)
{
    SET(CURLOPT_CAINFO, or_null(transfer->cafile));
    SET(CURLOPT_CAPATH, or_null(transfer->capath));
    SET(CURLOPT_PROXY_CAINFO, or_null(transfer->cafile));
    SET(CURLOPT_PROXY_CAPATH, or_null(transfer->capath));
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_PROXY_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_PROXY_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_PROXY_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    return true;
}

static bool
set_request(CURL *easy, const ro_transfer *transfer)
{
    const char *method = transfer->method;

    SET(CURLOPT_URL, transfer->url);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    if (transfer->has_body) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->body_len);
        SET(CURLOPT_POSTFIELDS, transfer->body);
        SET(CURLOPT_CUSTOMREQUEST, method);
    }
    else if (strcmp(method, "HEAD") == 0) {
        SET(CURLOPT_NOBODY, 1L);
    }
    else {
        SET(CURLOPT_HTTPGET, 1L);
        SET(CURLOPT_CUSTOMREQUEST, method);
    }
    SET(CURLOPT_HTTPHEADER, transfer->headers);
    /* A proxy's CONNECT gets none of them. */
    SET(CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    /* Any text turns decoding on. The header is the request's own or none,
     * and ro_head_check refuses what that does not name. */
    SET(CURLOPT_ACCEPT_ENCODING, transfer->raw ? NULL : "gzip");
    SET(CURLOPT_HTTP_VERSION, transfer->http2 ? (long)CURL_HTTP_VERSION_2TLS
                                              : (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_PIPEWAIT, transfer->http2 ? 1L : 0L);
    SET(CURLOPT_FRESH_CONNECT, ro_transfer_wants_fresh(transfer) ? 1L : 0L);
    SET(CURLOPT_FORBID_REUSE, 0L);
    SET(CURLOPT_MAXAGE_CONN, RO_IDLE_S);
    /* 0 would be libcurl's own limit, five minutes. */
    SET(CURLOPT_CONNECTTIMEOUT_MS,
        transfer->connect_ms > 0 && transfer->connect_ms < INT_MAX
            ? transfer->connect_ms
            : (long)INT_MAX);
    return true;
}

static bool
set_callbacks(CURL *easy, ro_attempt *attempt)
{
    SET(CURLOPT_PRIVATE, attempt);
    SET(CURLOPT_ERRORBUFFER, attempt->error);
    SET(CURLOPT_PREREQFUNCTION, ro_attempt_on_prereq);
    SET(CURLOPT_PREREQDATA, attempt);
    SET(CURLOPT_HEADERFUNCTION, ro_attempt_on_header);
    SET(CURLOPT_HEADERDATA, attempt);
    SET(CURLOPT_WRITEFUNCTION, ro_attempt_on_body);
    SET(CURLOPT_WRITEDATA, attempt);
    SET(CURLOPT_XFERINFOFUNCTION, ro_attempt_on_progress);
    SET(CURLOPT_XFERINFODATA, attempt);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_OPENSOCKETFUNCTION, ro_attempt_on_socket);
    SET(CURLOPT_OPENSOCKETDATA, attempt);
    SET(CURLOPT_CLOSESOCKETFUNCTION, ro_attempt_on_close);
    SET(CURLOPT_CLOSESOCKETDATA, attempt->net);
    return true;
}

static bool
set_constants(CURL *easy)
{
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L); /* a stuck resolver is left, not joined */
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_NOPROXY, "");
    SET(CURLOPT_PROXYAUTH, (long)CURLAUTH_BASIC);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    return true;
}

bool
ro_attempt_configure(ro_attempt *attempt)
{
    CURL *easy = attempt->easy;
    const ro_transfer *transfer = attempt->transfer;

    return set_constants(easy) && set_callbacks(easy, attempt)
           && set_trust(easy, transfer) && set_proxy(easy, transfer->proxy)
           && set_request(easy, transfer)
           && (!transfer->opens || ro_open_configure(easy));
}
