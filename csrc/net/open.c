#include "net/internal.h"

#include <sys/socket.h>

enum { LIBCURL_8 = 0x080000 };

bool
ro_open_is_possible(void)
{
    return curl_version_info(CURLVERSION_NOW)->version_num < LIBCURL_8;
}

static int
on_seek(void *ctx, curl_off_t offset, int origin)
{
    (void)ctx;
    (void)offset;
    (void)origin;
    return CURL_SEEKFUNC_OK;
}

bool
ro_open_configure(CURL *easy)
{
    const curl_off_t size = 1;

    return curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L) == CURLE_OK
           && curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, size)
                  == CURLE_OK
           && curl_easy_setopt(easy, CURLOPT_RESUME_FROM_LARGE, size)
                  == CURLE_OK
           && curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek)
                  == CURLE_OK;
}

bool
ro_open_is_done(CURLcode code)
{
    return code == CURLE_PARTIAL_FILE;
}

static bool
is_idle(const ro_net *net, const ro_socket *one)
{
    for (const ro_attempt *each = net->attempts; each != NULL;
         each = each->next) {
        if (each->fd == one->fd || each->serial == one->opener) {
            return false;
        }
    }
    return true;
}

/* libcurl closes them itself when it next looks at them. */
static void
shut(ro_net *net, bool early_alone)
{
    for (size_t i = 0; i < net->sockets.count; i++) {
        ro_socket *each = &net->sockets.items[i];
        if (early_alone ? each->early : is_idle(net, each)) {
            (void)shutdown(each->fd, SHUT_RDWR);
            each->used = false; /* its end says nothing of the server */
        }
    }
}

void
ro_net_close_unused(ro_net *net)
{
    shut(net, true);
}

void
ro_net_close_idle(ro_net *net)
{
    shut(net, false);
}
