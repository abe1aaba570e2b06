#include "mcp/replies.h"

#include <pthread.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/wake.h"

struct ro_replies {
    pid_t pid; /* a forked child shares the descriptor */
    pthread_mutex_t lock;
    ro_reply *first;
    ro_reply **end;
    int fd;
};

ro_replies *
ro_replies_new(void)
{
    ro_replies *replies = ro_calloc(1, sizeof(*replies));
    if (replies == NULL) {
        return NULL;
    }
    replies->pid = getpid();
    replies->end = &replies->first;
    replies->fd = ro_wake_new();
    if (replies->fd < 0) {
        ro_free(replies);
        return NULL;
    }
    if (pthread_mutex_init(&replies->lock, NULL) != 0) {
        (void)close(replies->fd);
        ro_free(replies);
        return NULL;
    }
    return replies;
}

void
ro_reply_free(ro_reply *reply)
{
    if (reply == NULL) {
        return;
    }
    ro_header_list_free(&reply->headers);
    ro_free(reply->body);
    ro_free(reply);
}

void
ro_replies_free(ro_replies *replies)
{
    if (replies == NULL) {
        return;
    }
    while (replies->first != NULL) {
        ro_reply *next = replies->first->next;
        ro_reply_free(replies->first);
        replies->first = next;
    }
    (void)pthread_mutex_destroy(&replies->lock);
    (void)close(replies->fd);
    ro_free(replies);
}

int
ro_replies_fd(const ro_replies *replies)
{
    return replies->fd;
}

void
ro_replies_wake(ro_replies *replies)
{
    ro_wake_raise(replies->fd);
}

void
ro_replies_push(ro_replies *replies, ro_reply *reply)
{
    reply->next = NULL;
    pthread_mutex_lock(&replies->lock);
    *replies->end = reply;
    replies->end = &reply->next;
    pthread_mutex_unlock(&replies->lock);
    ro_replies_wake(replies);
}

ro_reply *
ro_replies_take(ro_replies *replies)
{
    if (getpid() != replies->pid) {
        return NULL;
    }
    ro_wake_lower(replies->fd);
    pthread_mutex_lock(&replies->lock);
    ro_reply *first = replies->first;
    replies->first = NULL;
    replies->end = &replies->first;
    pthread_mutex_unlock(&replies->lock);
    return first;
}
