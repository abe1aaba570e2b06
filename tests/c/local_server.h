/* A TCP server on loopback whose every byte the test decides.
 *
 * One thread accepts; each connection is a thread that runs the handler
 * with the number of the connection (from 0) until it returns.
 */
#ifndef RO_TEST_LOCAL_SERVER_H
#define RO_TEST_LOCAL_SERVER_H

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVER_MAX_CONNECTIONS 4096

struct server;
typedef void (*server_handler)(struct server *server, int fd, unsigned nth);

struct server_connection {
    struct server *server;
    pthread_t thread;
    int fd;
    unsigned nth;
};

struct server {
    int listener;
    int port;
    pthread_t thread;
    server_handler handler;
    atomic_uint n_connections;
    atomic_uint n_ended;    /* connections whose handler has returned */
    atomic_uint n_requests; /* complete ones, counted by server_read */
    atomic_bool stopping;
    bool ended;
    pthread_mutex_t lock;
    char seen[4096]; /* lock: how the last request began */
    struct server_connection connections[SERVER_MAX_CONNECTIONS];
};

static void *
server_converse(void *ctx)
{
    struct server_connection *connection = ctx;
    connection->server->handler(connection->server, connection->fd,
                                connection->nth);
    shutdown(connection->fd, SHUT_RDWR);
    atomic_fetch_add(&connection->server->n_ended, 1);
    return NULL;
}

static void *
server_accept(void *ctx)
{
    struct server *server = ctx;
    for (;;) {
        int fd = accept(server->listener, NULL, NULL);
        unsigned nth = atomic_load(&server->n_connections);
        if (fd < 0 || atomic_load(&server->stopping)
            || nth == SERVER_MAX_CONNECTIONS) {
            if (fd >= 0) {
                close(fd);
            }
            return NULL;
        }
        struct server_connection *connection = &server->connections[nth];
        connection->server = server;
        connection->fd = fd;
        connection->nth = nth;
        if (pthread_create(&connection->thread, NULL, server_converse,
                           connection)
            != 0) {
            abort();
        }
        atomic_store(&server->n_connections, nth + 1);
    }
}

static inline struct server *
server_start(server_handler handler)
{
    struct server *server = calloc(1, sizeof(*server));
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->handler = handler;
    pthread_mutex_init(&server->lock, NULL);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server->listener, (struct sockaddr *)&address, len) != 0
        || listen(server->listener, 128) != 0
        || getsockname(server->listener, (struct sockaddr *)&address, &len)
               != 0
        || pthread_create(&server->thread, NULL, server_accept, server) != 0) {
        abort();
    }
    server->port = ntohs(address.sin_port);
    return server;
}

/* Returns when every handler has: what was sent to them has been read, as far
 * as they read. Once. */
static inline void
server_end(struct server *server)
{
    server->ended = true;
    atomic_store(&server->stopping, true);
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    for (unsigned i = 0; i < atomic_load(&server->n_connections); i++) {
        shutdown(server->connections[i].fd, SHUT_RDWR);
        pthread_join(server->connections[i].thread, NULL);
        close(server->connections[i].fd);
    }
}

static inline void
server_stop(struct server *server)
{
    if (!server->ended) {
        server_end(server);
    }
    free(server);
}

/* One request, head and body. False: the peer is gone. */
static inline bool
server_read(struct server *server, int fd)
{
    char bytes[sizeof(server->seen)];
    size_t len = 0;
    size_t need = 0;

    for (;;) {
        ssize_t got = recv(fd, bytes + len, sizeof(bytes) - len - 1, 0);
        if (got <= 0) {
            return false;
        }
        len += (size_t)got;
        bytes[len] = '\0';
        const char *end = strstr(bytes, "\r\n\r\n");
        if (end != NULL && need == 0) {
            const char *length = strstr(bytes, "Content-Length: ");
            need = (size_t)(end - bytes) + 4;
            if (length != NULL && length < end) {
                need += (size_t)strtoul(length + 16, NULL, 10);
            }
        }
        if (need > 0 && len >= need) {
            pthread_mutex_lock(&server->lock);
            memcpy(server->seen, bytes, len + 1);
            pthread_mutex_unlock(&server->lock);
            atomic_fetch_add(&server->n_requests, 1);
            return true;
        }
    }
}

/* Whether the last request has that in it. */
static inline bool
server_saw(struct server *server, const char *text)
{
    pthread_mutex_lock(&server->lock);
    bool found = strstr(server->seen, text) != NULL;
    pthread_mutex_unlock(&server->lock);
    return found;
}

/* Whether the last request was just that. */
static inline bool
server_saw_only(struct server *server, const char *text)
{
    pthread_mutex_lock(&server->lock);
    bool same = strcmp(server->seen, text) == 0;
    pthread_mutex_unlock(&server->lock);
    return same;
}

static inline void
server_say_bytes(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t put = send(fd, bytes, len, MSG_NOSIGNAL);
        if (put <= 0) {
            return;
        }
        bytes += put;
        len -= (size_t)put;
    }
}

static inline void
server_say(int fd, const char *text)
{
    server_say_bytes(fd, text, strlen(text));
}

/* Whether the peer still takes bytes; not once all buffers are full. */
static inline bool
server_may_say(int fd)
{
    struct pollfd state = {.fd = fd, .events = POLLOUT};
    return poll(&state, 1, 0) > 0;
}

/* Until the peer closes or ms have passed. */
static inline bool
server_peer_closes(int fd, int ms)
{
    struct pollfd state = {.fd = fd, .events = POLLRDHUP};
    return poll(&state, 1, ms) > 0;
}

#endif
