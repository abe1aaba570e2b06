/* What libcurl is told, and what it is never asked to look up itself. */
#include "net/internal.h"

#include <limits.h>
#include <stdio.h>

#include "core/alloc.h"

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

/* A part of a parsed URL, "" when it is not there; NULL: out of memory or
 * not decodable. To be freed with ro_free. */
static char *
part_of(CURLU *parts, CURLUPart what, unsigned flags)
{
    char *text = NULL;
    CURLUcode code = curl_url_get(parts, what, &text, flags);

    if (code == CURLUE_NO_USER || code == CURLUE_NO_PASSWORD
        || code == CURLUE_NO_PORT) {
        return ro_memdup("", 0);
    }
    char *copy = code == CURLUE_OK ? ro_memdup(text, strlen(text)) : NULL;
    curl_free(text);
    return copy;
}

/* "scheme://host:port"; NULL when out of memory. */
static char *
join(const char *scheme, const char *host, const char *port)
{
    size_t size = strlen(scheme) + strlen(host) + strlen(port) + 5;
    char *base = ro_malloc(size);

    if (base != NULL) {
        snprintf(base, size, "%s://%s:%s", scheme, host, port);
    }
    return base;
}

static bool
is_scheme(const char *scheme)
{
    return strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0;
}

/* The base of a parsed URL; NULL when it has none that can be used. */
static char *
base_of(CURLU *parts)
{
    char *base = NULL;
    char *scheme = part_of(parts, CURLUPART_SCHEME, 0);
    char *host = part_of(parts, CURLUPART_HOST, 0);
    char *port = part_of(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT);

    if (scheme != NULL && is_scheme(scheme) && host != NULL
        && host[0] != '\0' && port != NULL && port[0] != '\0'
        && strcmp(port, "0") != 0) {
        base = join(scheme, host, port);
    }
    ro_free(scheme);
    ro_free(host);
    ro_free(port);
    return base;
}

/* *parts is to be freed with curl_url_cleanup, whatever is returned. */
static ro_net_code
parse(const char *url, ro_net_code bad, CURLU **parts)
{
    *parts = NULL;
    if (!is_printable(url, RO_NET_MAX_URL)) {
        return bad;
    }
    *parts = curl_url();
    if (*parts == NULL) {
        return RO_NET_NO_MEMORY;
    }
    switch (curl_url_set(*parts, CURLUPART_URL, url, CURLU_PATH_AS_IS)) {
    case CURLUE_OK:
        return RO_NET_OK;
    case CURLUE_OUT_OF_MEMORY:
        return RO_NET_NO_MEMORY;
    default:
        return bad;
    }
}

ro_net_code
ro_net_check_url(const char *url, char **origin)
{
    CURLU *parts = NULL;
    char *user = NULL;
    char *password = NULL;
    char *base = NULL;

    *origin = NULL;
    ro_net_code code = parse(url, RO_NET_BAD_URL, &parts);
    if (code != RO_NET_OK) {
        goto done;
    }
    code = RO_NET_BAD_URL;
    user = part_of(parts, CURLUPART_USER, 0);
    password = part_of(parts, CURLUPART_PASSWORD, 0);
    base = base_of(parts);
    if (user == NULL || user[0] != '\0' || password == NULL
        || password[0] != '\0' || base == NULL) {
        goto done;
    }
    *origin = base;
    base = NULL;
    code = RO_NET_OK;
done:
    ro_free(user);
    ro_free(password);
    ro_free(base);
    curl_url_cleanup(parts);
    return code;
}

ro_net_code
ro_net_check_proxy(const char *proxy)
{
    CURLU *parts = NULL;

    if (proxy[0] == '\0') {
        return RO_NET_OK;
    }
    ro_net_code code = parse(proxy, RO_NET_BAD_PROXY, &parts);
    if (code == RO_NET_OK) {
        char *user = part_of(parts, CURLUPART_USER, CURLU_URLDECODE);
        char *password = part_of(parts, CURLUPART_PASSWORD, CURLU_URLDECODE);
        char *base = base_of(parts);
        if (user == NULL || password == NULL || base == NULL) {
            code = RO_NET_BAD_PROXY;
        }
        ro_free(user);
        ro_free(password);
        ro_free(base);
    }
    curl_url_cleanup(parts);
    return code;
}

/* ---- options ---- */

#define SET(option, value)                                                  \
    do {                                                                    \
        if (curl_easy_setopt(easy, option, value) != CURLE_OK) {            \
            return false;                                                   \
        }                                                                   \
    } while (0)

/* The port is spelled out: libcurl's own default is 1080. */
static bool
set_proxy(CURL *easy, const char *proxy)
{
    CURLU *parts = NULL;
    bool ok = false;

    if (proxy[0] == '\0') {
        SET(CURLOPT_PROXY, "");
        return true;
    }
    if (parse(proxy, RO_NET_BAD_PROXY, &parts) == RO_NET_OK) {
        char *user = part_of(parts, CURLUPART_USER, CURLU_URLDECODE);
        char *password = part_of(parts, CURLUPART_PASSWORD, CURLU_URLDECODE);
        char *base = base_of(parts);
        ok = user != NULL && password != NULL && base != NULL
             && curl_easy_setopt(easy, CURLOPT_PROXY, base) == CURLE_OK;
        if (ok && (user[0] != '\0' || password[0] != '\0')) {
            ok = curl_easy_setopt(easy, CURLOPT_PROXYUSERNAME, user)
                     == CURLE_OK
                 && curl_easy_setopt(easy, CURLOPT_PROXYPASSWORD, password)
                        == CURLE_OK;
        }
        ro_free(user);
        ro_free(password);
        ro_free(base);
    }
    curl_url_cleanup(parts);
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
set_request(CURL *easy, const ro_transfer *transfer, ro_flight *flight)
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
    SET(CURLOPT_HTTPHEADER, &flight->anchor);
    SET(CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    /* Any text turns decoding on; the header itself is the request's own. */
    SET(CURLOPT_ACCEPT_ENCODING,
        transfer->raw || transfer->codings == 0 ? NULL : "gzip");
    SET(CURLOPT_HTTP_VERSION, transfer->http2 ? (long)CURL_HTTP_VERSION_2TLS
                                              : (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_PIPEWAIT, transfer->http2 ? 1L : 0L);
    SET(CURLOPT_FRESH_CONNECT, transfer->fresh ? 1L : 0L);
    SET(CURLOPT_FORBID_REUSE, 0L);
    SET(CURLOPT_MAXAGE_CONN, RO_NET_IDLE_S);
    SET(CURLOPT_CONNECTTIMEOUT_MS,
        transfer->connect_ms > 0 && transfer->connect_ms < INT_MAX
            ? transfer->connect_ms
            : (long)INT_MAX);
    return true;
}

static bool
set_callbacks(CURL *easy, ro_flight *flight)
{
    SET(CURLOPT_PRIVATE, flight);
    SET(CURLOPT_ERRORBUFFER, flight->error);
    SET(CURLOPT_PREREQFUNCTION, ro_flight_on_prereq);
    SET(CURLOPT_PREREQDATA, flight);
    SET(CURLOPT_HEADERFUNCTION, ro_flight_on_header);
    SET(CURLOPT_HEADERDATA, flight);
    SET(CURLOPT_WRITEFUNCTION, ro_flight_on_body);
    SET(CURLOPT_WRITEDATA, flight);
    SET(CURLOPT_XFERINFOFUNCTION, ro_flight_on_progress);
    SET(CURLOPT_XFERINFODATA, flight);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_OPENSOCKETFUNCTION, ro_flight_on_socket);
    SET(CURLOPT_OPENSOCKETDATA, flight);
    return true;
}

static bool
set_manners(CURL *easy)
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
ro_flight_configure(ro_flight *flight)
{
    CURL *easy = flight->easy;
    const ro_transfer *transfer = flight->transfer;

    return set_manners(easy) && set_callbacks(easy, flight)
           && set_trust(easy, transfer) && set_proxy(easy, transfer->proxy)
           && set_request(easy, transfer, flight);
}
