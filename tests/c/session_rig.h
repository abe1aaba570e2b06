/* A scripted MCP server on loopback, and a client that drives one ro_mcp.
 *
 * The server answers each request by its kind with what the script says,
 * and counts. The client waits for replies by ticket. One rig at a time.
 */
#ifndef RO_TEST_SESSION_RIG_H
#define RO_TEST_SESSION_RIG_H

#include <netinet/tcp.h>

#include "check.h"
#include "core/alloc.h"
#include "core/limits.h"
#include "core/monotonic.h"
#include "local_server.h"
#include "mcp/session.h"

enum kind {
    INITIALIZE,
    INITIALIZED,
    LIST,
    CALL,
    PING_ANSWER, /* this side's answer to a request of the server */
    GET,
    DELETE,
    OTHER,
    KINDS,
};

/* What the server does with one request; false closes the connection. */
typedef bool (*answer_fn)(int fd, const char *request, unsigned nth);

struct script {
    answer_fn answer[KINDS]; /* NULL: the default of the kind */
};

#define RIG_TIMES 64

struct rig {
    struct server *server;
    const struct script *script;
    atomic_uint seen[KINDS];
    atomic_llong at[KINDS][RIG_TIMES]; /* when the nth came */
    ro_net *net;
    ro_discovery *discovery;
    ro_gate *gate;
    ro_record *record;
    ro_mcp *mcp;
    ro_session *session;
    uint64_t ticket;
    ro_reply *kept; /* taken and not asked for yet */
    char url[64];
};

/* What comes by itself has come by then, on a busy machine too: a server that
 * holds a connection holds it for longer, and a wait has more patience. */
#define PROMPT_MS 3500

/* The handler of local_server.h has no argument for it. */
static struct rig *rig_now;

/* CHECK for the server's threads: counted by rig_stop. */
static atomic_uint rig_unexpected;
#define EXPECT(condition)                                                     \
    do {                                                                      \
        if (!(condition)) {                                                   \
            atomic_fetch_add(&rig_unexpected, 1);                             \
            fprintf(stderr, "%s:%d: unexpected: not %s\n", __FILE__,          \
                    __LINE__, #condition);                                    \
        }                                                                     \
    } while (0)

#define TOOL "srv_read"
#define GOOD_ENTRY                                                            \
    "{\"name\":\"read\",\"inputSchema\":{\"type\":\"object\"},"               \
    "\"annotations\":{\"readOnlyHint\":true}}"
#define INITIALIZE_BODY                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{}}"
#define INITIALIZED_BODY                                                      \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"
#define LIST_BODY "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"
#define CALL_BODY                                                             \
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\","                \
    "\"params\":{\"name\":\"read\",\"arguments\":{}}}"
#define INITIALIZE_ANSWER                                                     \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"capabilities\":{}}}"
#define LIST_ANSWER                                                           \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[" GOOD_ENTRY "]}}"
#define CALL_ANSWER                                                           \
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[],"               \
    "\"structuredContent\":{\"n\": 1.10}}}"

/* ---- the server ---- */

static inline void
say_json(int fd, const char *headers, const char *body)
{
    char head[512];
    snprintf(head, sizeof(head),
             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n%s\r\n",
             strlen(body), headers);
    server_say(fd, head);
    server_say(fd, body);
}

static inline void
say_stream_head(int fd)
{
    server_say(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                   "Connection: close\r\n\r\n");
}

static inline bool
answer_by_default(enum kind kind, int fd)
{
    switch (kind) {
    case INITIALIZE:
        say_json(fd, "Mcp-Session-Id: s-1\r\n", INITIALIZE_ANSWER);
        return true;
    case LIST:
        say_json(fd, "", LIST_ANSWER);
        return true;
    case CALL:
        say_json(fd, "", CALL_ANSWER);
        return true;
    case GET:
        server_say(fd, "HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n");
        return true;
    case DELETE:
        server_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        return true;
    default:
        server_say(fd, "HTTP/1.1 202 OK\r\nContent-Length: 0\r\n\r\n");
        return true;
    }
}

static enum kind
kind_of(const char *request)
{
    static const struct {
        const char *mark;
        enum kind kind;
    } marks[] = {
        {"\"initialize\"", INITIALIZE},
        {"notifications/initialized", INITIALIZED},
        {"\"tools/list\"", LIST},
        {"\"tools/call\"", CALL},
        {"\"result\"", PING_ANSWER},
        {"\"error\"", PING_ANSWER},
    };
    if (strncmp(request, "GET ", 4) == 0) {
        return GET;
    }
    if (strncmp(request, "DELETE ", 7) == 0) {
        return DELETE;
    }
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (strstr(request, marks[i].mark) != NULL) {
            return marks[i].kind;
        }
    }
    return OTHER;
}

/* One request, head and body, as text. False: the peer is gone. */
static bool
rig_read(int fd, char *bytes, size_t size)
{
    size_t len = 0;
    size_t need = 0;
    while (need == 0 || len < need) {
        ssize_t got = recv(fd, bytes + len, size - len - 1, 0);
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
    }
    return true;
}

static inline void
rig_serve(struct server *server, int fd, unsigned nth)
{
    struct rig *rig = rig_now;
    char request[2 * RO_MAX_HEADER_VALUE]; /* an id may be that long */
    int now = 1;
    (void)server;
    (void)nth;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
    while (rig_read(fd, request, sizeof(request))) {
        enum kind kind = kind_of(request);
        unsigned before = atomic_fetch_add(&rig->seen[kind], 1);
        if (before < RIG_TIMES) {
            atomic_store(&rig->at[kind][before], ro_monotonic_ms());
        }
        answer_fn answer = rig->script->answer[kind];
        if (!(answer != NULL ? answer(fd, request, before)
                             : answer_by_default(kind, fd))) {
            return;
        }
    }
}

/* ---- the client ---- */

static inline ro_session *
rig_session(struct rig *rig, const char *server)
{
    ro_session_options options = {
        .server = ro_slice_str(server),
        .url = rig->url,
        .proxy = "",
        .cafile = "",
        .capath = "",
    };
    return ro_mcp_session(rig->mcp, &options);
}

/* What outlives the sessions. */
static inline void
rig_free_found(struct rig *rig)
{
    ro_discovery_free(rig->discovery);
    ro_gate_free(rig->gate);
    ro_record_free(rig->record);
    rig->discovery = NULL;
    rig->gate = NULL;
    rig->record = NULL;
}

static inline bool
rig_open_gate(struct rig *rig, const char *arguments)
{
    return ro_gate_open(rig->gate, rig->discovery, ro_slice_str("srv"),
                        ro_slice_str(arguments));
}

/* The client's half alone; the session is the caller's to make. */
static inline bool
rig_open(struct rig *rig)
{
    ro_slice tool = ro_slice_str(TOOL);
    rig->discovery = ro_discovery_new(tool);
    rig->gate = rig->discovery == NULL ? NULL : ro_gate_new(tool);
    rig->record = rig->gate == NULL ? NULL : ro_record_new();
    rig->net = rig->record == NULL ? NULL : ro_net_new();
    rig->mcp = rig->net == NULL ? NULL
                                : ro_mcp_new(rig->net, rig->discovery,
                                             rig->gate, rig->record);
    return rig->mcp != NULL;
}

static inline void
rig_start(struct rig *rig, const struct script *script)
{
    memset(rig, 0, sizeof(*rig));
    rig->script = script;
    rig_now = rig;
    rig->server = server_start(rig_serve);
    snprintf(rig->url, sizeof(rig->url), "http://127.0.0.1:%d/mcp",
             rig->server->port);
    CHECK(rig_open(rig));
    rig->session = rig_session(rig, "srv");
    CHECK(rig->session != NULL);
}

static inline void
rig_free_kept(struct rig *rig)
{
    while (rig->kept != NULL) {
        ro_reply *next = rig->kept->next;
        ro_reply_free(rig->kept);
        rig->kept = next;
    }
}

/* Ends the client; false when the worker hangs. */
static inline bool
rig_close(struct rig *rig)
{
    bool ended = ro_net_shut_down(rig->net, 5000);
    rig_free_kept(rig);
    if (ended) {
        ro_mcp_free(rig->mcp);
        ro_net_free(rig->net);
        rig_free_found(rig);
    }
    rig->mcp = NULL;
    rig->net = NULL;
    return ended;
}

static inline void
rig_stop(struct rig *rig)
{
    CHECK(rig_close(rig));
    server_stop(rig->server);
    CHECK(atomic_exchange(&rig_unexpected, 0) == 0);
    rig_now = NULL;
}

/* The ticket; 0 when the submit was refused. */
static inline uint64_t
rig_submit_to(struct rig *rig, ro_session *session, const char *method,
              const char *url, const char *body)
{
    ro_header headers[] = {
        {ro_slice_str("Accept"),
         ro_slice_str("application/json, text/event-stream")},
        {ro_slice_str("Content-Type"), ro_slice_str("application/json")},
        {ro_slice_str("Mcp-Session-Id"), ro_slice_str("s-1")},
        {ro_slice_str("X-Key"), ro_slice_str("v")},
    };
    size_t count = body != NULL && strstr(body, "\"initialize\"") ? 2 : 4;
    uint64_t ticket = ++rig->ticket;
    bool taken = ro_session_submit(
        session, ticket, method, url, headers, count,
        ro_slice_str(body == NULL ? "" : body), body != NULL);
    return taken ? ticket : 0;
}

static inline uint64_t
rig_submit(struct rig *rig, const char *body)
{
    return rig_submit_to(rig, rig->session, "POST", rig->url, body);
}

/* Takes what is there; replies of one ticket, 0 for any. */
static inline unsigned
rig_count(struct rig *rig, uint64_t ticket)
{
    unsigned found = 0;
    ro_reply **end = &rig->kept;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = ro_replies_take(ro_mcp_replies(rig->mcp));
    for (ro_reply *each = rig->kept; each != NULL; each = each->next) {
        found += ticket == 0 || each->ticket == ticket;
    }
    return found;
}

/* The reply of a ticket within ms, to be freed; NULL when none comes. */
static inline ro_reply *
rig_wait(struct rig *rig, uint64_t ticket, int ms)
{
    int64_t until = ro_monotonic_ms() + ms;
    for (;;) {
        (void)rig_count(rig, ticket);
        for (ro_reply **link = &rig->kept; *link != NULL;
             link = &(*link)->next) {
            ro_reply *reply = *link;
            if (reply->ticket == ticket) {
                *link = reply->next;
                reply->next = NULL;
                return reply;
            }
        }
        int64_t left = until - ro_monotonic_ms();
        if (left <= 0) {
            return NULL;
        }
        struct pollfd news = {.fd = ro_replies_fd(ro_mcp_replies(rig->mcp)),
                              .events = POLLIN};
        (void)poll(&news, 1, (int)left);
    }
}

static inline bool
reply_has(const ro_reply *reply, const char *text)
{
    return reply != NULL && reply->body != NULL
           && memmem(reply->body, reply->body_len, text, strlen(text)) != NULL;
}

/* One request to its end: whether the reply's body has text in it. */
static inline bool
rig_ask(struct rig *rig, const char *body, long status, const char *text)
{
    ro_reply *reply = rig_wait(rig, rig_submit(rig, body), 8000);
    bool good = reply != NULL && reply->status == status
                && (text == NULL || reply_has(reply, text));
    ro_reply_free(reply);
    return good;
}

/* Discovery as the SDK does it. */
static inline bool
rig_discover(struct rig *rig)
{
    return rig_ask(rig, INITIALIZE_BODY, 200, "capabilities")
           && rig_ask(rig, INITIALIZED_BODY, 202, NULL)
           && rig_ask(rig, LIST_BODY, 200, "readOnlyHint");
}

/* Discovery, the verdict, the call's session and its start. */
static inline bool
rig_reach_call(struct rig *rig)
{
    if (!rig_discover(rig) || !rig_open_gate(rig, "{ \"a\": 1.10 }")) {
        return false;
    }
    rig->session = rig_session(rig, "srv");
    return rig->session != NULL
           && rig_ask(rig, INITIALIZE_BODY, 200, "capabilities")
           && rig_ask(rig, INITIALIZED_BODY, 202, NULL);
}

/* The recorded outcome, or -1. */
static inline int
rig_outcome(struct rig *rig)
{
    ro_code code;
    return ro_record_outcome(rig->record, &code) ? (int)code : -1;
}

/* Why discovery of "srv" failed; RO_REASON_NONE when it did not. */
static inline ro_reason
rig_noted(struct rig *rig)
{
    return ro_discovery_noted(rig->discovery, ro_slice_str("srv"));
}

static inline unsigned
rig_seen(struct rig *rig, enum kind kind)
{
    return atomic_load(&rig->seen[kind]);
}

/* Waits until the server has seen that many; false after ms. */
static inline bool
rig_see(struct rig *rig, enum kind kind, unsigned count, int ms)
{
    int64_t until = ro_monotonic_ms() + ms;
    while (rig_seen(rig, kind) < count) {
        if (ro_monotonic_ms() > until) {
            return false;
        }
        (void)poll(NULL, 0, 2);
    }
    return true;
}

#endif
