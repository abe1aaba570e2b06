#include "net/location.h"

#include <curl/curl.h>
#include <string.h>

#include "core/alloc.h"

static bool
same_origin(CURLU *a, CURLU *b)
{
    static const CURLUPart parts[]
        = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    for (size_t i = 0; i < 3; i++) {
        char *left = NULL;
        char *right = NULL;
        bool same
            = curl_url_get(a, parts[i], &left, CURLU_DEFAULT_PORT) == CURLUE_OK
              && curl_url_get(b, parts[i], &right, CURLU_DEFAULT_PORT)
                     == CURLUE_OK
              && strcmp(left, right) == 0;
        curl_free(left);
        curl_free(right);
        if (!same) {
            return false;
        }
    }
    return true;
}

char *
ro_location_resolve(const char *base, ro_slice text)
{
    char *relative = ro_memdup(text.ptr, text.len);
    CURLU *from = curl_url();
    CURLU *to = curl_url();
    char *url = NULL;
    char *copy = NULL;
    /* A text that holds a NUL is no URL. The fragment is the client's own and
     * never sent. */
    if (relative != NULL && from != NULL && to != NULL
        && strlen(relative) == text.len
        && curl_url_set(from, CURLUPART_URL, base, 0) == CURLUE_OK
        && curl_url_set(to, CURLUPART_URL, base, 0) == CURLUE_OK
        && curl_url_set(to, CURLUPART_URL, relative, CURLU_DISALLOW_USER)
               == CURLUE_OK
        && curl_url_set(to, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK
        && same_origin(from, to)
        && curl_url_get(to, CURLUPART_URL, &url, 0) == CURLUE_OK) {
        copy = ro_memdup(url, strlen(url));
    }
    curl_free(url);
    curl_url_cleanup(from);
    curl_url_cleanup(to);
    ro_free(relative);
    return copy;
}
