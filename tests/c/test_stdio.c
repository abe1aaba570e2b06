/* Sessions over a child's standard streams. */
#include "session_rig.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>

#define PROMPT_MS 1000

/* The child is this program: `test_stdio <role>`. */
static char *self;

/* ---- the child's side ---- */

static void
say(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t put = write(STDOUT_FILENO, text, left);
        if (put <= 0) {
            _exit(1);
        }
        text += put;
        left -= (size_t)put;
    }
}

/* One line without its line feed; false at the end. */
static bool
hear(char *line, size_t size)
{
    size_t len = 0;
    while (read(STDIN_FILENO, line + len, 1) == 1) {
        if (line[len] == '\n') {
            line[len] = '\0';
            return true;
        }
        len += len + 2 < size;
    }
    return false;
}

static void
fill(size_t count, char with)
{
    static char block[65536];
    memset(block, with, sizeof(block) - 1);
    while (count > 0) {
        size_t part = count < sizeof(block) - 1 ? count : sizeof(block) - 1;
        block[part] = '\0';
        say(block);
        block[part] = with;
        count -= part;
    }
}

/* A line of exactly len bytes: the call's answer. */
static void
say_answer_of(size_t len)
{
    static const char start[]
        = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[],"
          "\"structuredContent\":{\"a\":\"";
    static const char end[] = "\"}}}";
    say(start);
    fill(len - strlen(start) - strlen(end), 'x');
    say(end);
    say("\n");
}

static void
wait_for_ever(void)
{
    for (;;) {
        (void)pause();
    }
}

static void
say_junk(void)
{
    say("Welcome!\n\n\r\n \n[1]\n{}\n{\"a\":1}\nnull\n\"x\"\n"
        "{\"method\":\"x\"}\n\xff\xfe bytes\n{\"log\":\"\xff\"}\n"
        "{\"log\":NaN}\n");
    for (int i = 0; i < 10000; i++) {
        say("a line of a log\n");
    }
}

/* The answer to a call, by role; false when it said it itself. */
static bool
play_call(const char *role)
{
    if (strcmp(role, "nan") == 0) {
        say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":NaN}\n");
    }
    else if (strcmp(role, "utf8") == 0) {
        say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":\"\xff\"}\n");
    }
    else if (strcmp(role, "wrong_id") == 0) {
        say("{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n");
    }
    else if (strcmp(role, "crlf") == 0) {
        say("\r\n" CALL_ANSWER "\r\n");
    }
    else if (strcmp(role, "junk") == 0) {
        say_junk();
        return true;
    }
    else if (strcmp(role, "below") == 0) {
        say_answer_of(RO_MAX_STDIO_LINE - 1);
    }
    else if (strcmp(role, "at") == 0) {
        say_answer_of(RO_MAX_STDIO_LINE);
    }
    else if (strcmp(role, "above") == 0) {
        say_answer_of(RO_MAX_STDIO_LINE + 1);
    }
    else if (strcmp(role, "endless") == 0) {
        for (;;) {
            fill(65536, 'x');
        }
    }
    else if (strcmp(role, "blank") == 0) {
        for (;;) {
            fill(65536, '\n');
        }
    }
    else if (strcmp(role, "exit") == 0) {
        say(CALL_ANSWER "\n");
        _exit(0);
    }
    else if (strcmp(role, "no_line_feed") == 0) {
        say(CALL_ANSWER);
        _exit(0);
    }
    else if (strcmp(role, "silent_exit") == 0) {
        _exit(3);
    }
    else if (strcmp(role, "heir") == 0) {
        /* the answer, and a grandchild that holds and floods the pipe */
        say(CALL_ANSWER "\n");
        if (fork() == 0) {
            (void)signal(SIGHUP, SIG_IGN);
            for (;;) {
                fill(65536, 'x');
            }
        }
        _exit(0);
    }
    else if (strcmp(role, "ping") == 0) {
        char line[65536];
        say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n"
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n");
        if (!hear(line, sizeof(line))
            || strcmp(line, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}")
                   != 0) {
            _exit(4);
        }
        return true;
    }
    else if (strcmp(role, "close_out") == 0) {
        (void)close(STDOUT_FILENO);
        wait_for_ever();
    }
    else if (strcmp(role, "mute") != 0) {
        return true;
    }
    return false;
}

static int
play(const char *role)
{
    char line[65536];
    if (strcmp(role, "exit_at_once") == 0) {
        return 1;
    }
    if (strcmp(role, "deaf") == 0) {
        (void)signal(SIGTERM, SIG_IGN);
        wait_for_ever();
    }
    if (strcmp(role, "close_in") == 0) {
        (void)close(STDIN_FILENO);
        (void)signal(SIGTERM, SIG_IGN);
        wait_for_ever();
    }
    if (strcmp(role, "early") == 0) { /* a request before any other line */
        say("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ping\"}\n");
    }
    while (hear(line, sizeof(line))) {
        if (strstr(line, "\"initialize\"") != NULL) {
            if (strcmp(role, "exit_in_initialize") == 0) {
                return 1;
            }
            if (strcmp(role, "stubborn") == 0) {
                (void)signal(SIGTERM, SIG_IGN);
            }
            say(INITIALIZE_ANSWER "\n");
        }
        else if (strstr(line, "\"tools/list\"") != NULL) {
            say(LIST_ANSWER "\n");
        }
        else if (strstr(line, "\"tools/call\"") != NULL && play_call(role)) {
            say(strstr(line, "\"arguments\":{\"a\":1.10}") != NULL
                    ? CALL_ANSWER "\n"
                    : "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n");
        }
    }
    if (strcmp(role, "stubborn") == 0) {
        wait_for_ever();
    }
    return 0;
}

/* ---- this side ---- */

static ro_session *
start(struct rig *rig, const char *program, const char *role)
{
    char *argv[] = {(char *)(size_t)program, (char *)(size_t)role, NULL};
    char *envp[] = {NULL};
    ro_session_options options = {
        .server = ro_slice_str("srv"),
        .url = RO_STDIO_URL,
        .proxy = "",
        .cafile = "",
        .capath = "",
    };
    return ro_mcp_stdio_session(rig->mcp, &options, argv, envp);
}

static void
open_rig(struct rig *rig, const char *role)
{
    memset(rig, 0, sizeof(*rig));
    snprintf(rig->url, sizeof(rig->url), "%s", RO_STDIO_URL);
    CHECK(rig_open(rig));
    rig->session = start(rig, self, role);
    CHECK(rig->session != NULL);
}

/* As rig_reach_call, in one child. */
static bool
reach_call(struct rig *rig)
{
    return rig_discover(rig)
           && ro_call_open(rig->call, ro_slice_str("srv"),
                           ro_slice_str("{ \"a\": 1.10 }"));
}

/* Children of this process, zombies included. */
static unsigned
children(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[280];
        char text[512] = "";
        snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL) {
            continue;
        }
        size_t len = fread(text, 1, sizeof(text) - 1, file);
        text[len] = '\0';
        (void)fclose(file);
        const char *behind = strrchr(text, ')');
        int parent = 0;
        if (behind != NULL && sscanf(behind + 1, " %*c %d", &parent) == 1
            && parent == (int)getpid()) {
            count++;
        }
    }
    (void)closedir(dir);
    return count;
}

static unsigned
open_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    (void)closedir(dir);
    return count;
}

static bool
no_children_within(int ms)
{
    int64_t until = ro_net_now_ms() + ms;
    while (children() != 0) {
        if (ro_net_now_ms() > until) {
            return false;
        }
        (void)poll(NULL, 0, 5);
    }
    return true;
}

/* ---- the call ---- */

static void
test_each_child_at_the_call(void)
{
    static const struct {
        const char *role;
        int code;
    } cases[] = {
        {"good", RO_CODE_OK},
        {"early", RO_CODE_OK},
        {"crlf", RO_CODE_OK},
        {"ping", RO_CODE_OK},
        {"junk", RO_CODE_OK},
        {"exit", RO_CODE_OK},
        {"heir", RO_CODE_OK},
        {"below", RO_CODE_OK},
        {"at", RO_CODE_OK},
        {"above", RO_CODE_RESULT_TOO_LARGE},
        {"endless", RO_CODE_RESULT_TOO_LARGE},
        {"nan", RO_CODE_MALFORMED_RESULT},
        {"utf8", RO_CODE_MALFORMED_RESULT},
        {"wrong_id", RO_CODE_MALFORMED_RESULT},
        {"no_line_feed", RO_CODE_RUNTIME_FAILURE},
        {"silent_exit", RO_CODE_RUNTIME_FAILURE},
        {"close_out", RO_CODE_RUNTIME_FAILURE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        unsigned before = open_descriptors();
        open_rig(&rig, cases[i].role);
        CHECK(reach_call(&rig));
        int64_t begin = ro_net_now_ms();
        ro_reply *reply = rig_wait(&rig, rig_submit(&rig, CALL_BODY), 6000);
        int took = (int)(ro_net_now_ms() - begin);
        bool good
            = reply != NULL && rig_outcome(&rig) == cases[i].code
              && reply_has(reply, cases[i].code == RO_CODE_OK ? "\"content\""
                                                              : "\"error\"");
        if (!good || took > PROMPT_MS) {
            fprintf(stderr, "%s: outcome %d after %d ms\n", cases[i].role,
                    rig_outcome(&rig), took);
        }
        CHECK(good);
        CHECK(took <= PROMPT_MS);
        ro_reply_free(reply);
        CHECK(rig_count(&rig, 0) == 0);
        CHECK(rig_ask(&rig, CALL_BODY, 200, "error")); /* the gate */
        ro_mcp_close(rig.mcp, 1000);
        CHECK(no_children_within(1000));
        CHECK(rig_close(&rig));
        CHECK(open_descriptors() == before);
    }
}

static void
sleep_on_worker(void *ctx)
{
    (void)ctx;
    (void)poll(NULL, 0, 400);
}

/* Blank lines cost this side more than the child; memory stays bounded while
 * the worker is busy. */
static void
test_a_flood_of_blank_lines_is_bounded(void)
{
    struct rig rig;
    size_t most = 0;
    open_rig(&rig, "blank");
    CHECK(reach_call(&rig));
    uint64_t ticket = rig_submit(&rig, CALL_BODY);
    CHECK(ro_net_run(rig.net, sleep_on_worker, NULL) == RO_NET_OK);
    ro_reply *reply = NULL;
    for (int i = 0; i < 3000 && reply == NULL; i++) {
        size_t live = ro_alloc_live();
        most = live > most ? live : most;
        reply = rig_wait(&rig, ticket, 1);
    }
    CHECK(reply_has(reply, "error"));
    ro_reply_free(reply);
    CHECK(rig_outcome(&rig) == RO_CODE_RUNTIME_FAILURE);
    CHECK(most < 80000);
    CHECK(rig_close(&rig));
    CHECK(no_children_within(1000));
}

/* ---- the start ---- */

static void
test_what_cannot_be_started(void)
{
    static const struct {
        const char *path;
        int error;
    } cases[] = {
        {"/nowhere/at/all", ENOENT},
        {"/", EACCES},
        {"/dev/null", EACCES},
    };
    struct rig rig;
    memset(&rig, 0, sizeof(rig));
    CHECK(rig_open(&rig));
    unsigned before = open_descriptors();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        errno = 0;
        CHECK(start(&rig, cases[i].path, "x") == NULL);
        CHECK(errno == cases[i].error);
    }
    CHECK(open_descriptors() == before);
    CHECK(children() == 0);
    CHECK(rig_close(&rig));
}

static void
test_a_child_that_exits_is_a_prompt_error(void)
{
    static const char *const roles[] = {"exit_at_once", "exit_in_initialize"};
    for (size_t i = 0; i < 2; i++) {
        struct rig rig;
        open_rig(&rig, roles[i]);
        int64_t begin = ro_net_now_ms();
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "error"));
        CHECK(ro_net_now_ms() - begin < PROMPT_MS);
        const char *note = ro_call_noted(rig.call, ro_slice_str("srv"));
        CHECK(note != NULL && strcmp(note, "exited") == 0);
        CHECK(no_children_within(1000)); /* reaped before any end */
        CHECK(rig_ask(&rig, LIST_BODY, 200, "error"));
        CHECK(rig_close(&rig));
    }
}

/* ---- the end ---- */

static void
test_a_stubborn_child_is_ended(void)
{
    static const char *const roles[] = {"stubborn", "deaf", "close_in"};
    for (size_t i = 0; i < 3; i++) {
        struct rig rig;
        open_rig(&rig, roles[i]);
        uint64_t ticket = rig_submit(&rig, INITIALIZE_BODY);
        if (i == 0) {
            ro_reply_free(rig_wait(&rig, ticket, 2000));
        }
        else {
            (void)poll(NULL, 0, 50);
        }
        int64_t begin = ro_net_now_ms();
        ro_session_end(rig.session);
        ro_session_end(rig.session);
        CHECK(no_children_within(2000));
        int took = (int)(ro_net_now_ms() - begin);
        CHECK(took >= 450 && took < 1200);
        if (i != 0) { /* what waited has its answer */
            ro_reply *reply = rig_wait(&rig, ticket, 500);
            CHECK(reply_has(reply, "error"));
            ro_reply_free(reply);
        }
        CHECK(rig_close(&rig));
    }
}

static void
test_close_waits_for_the_child(void)
{
    struct rig rig;
    open_rig(&rig, "good");
    CHECK(rig_discover(&rig));
    int64_t begin = ro_net_now_ms();
    ro_mcp_close(rig.mcp, 2000);
    CHECK(ro_net_now_ms() - begin < 500); /* it ends with its input */
    CHECK(children() == 0);
    CHECK(rig_close(&rig));
    open_rig(&rig, "stubborn");
    CHECK(rig_discover(&rig));
    begin = ro_net_now_ms();
    ro_mcp_close(rig.mcp, 100);
    CHECK(ro_net_now_ms() - begin < 250);
    CHECK(children() == 1);
    CHECK(rig_close(&rig)); /* without grace */
    CHECK(children() == 0);
}

static void
test_free_ends_every_child(void)
{
    static const char *const roles[]
        = {"good", "deaf", "stubborn", "mute", "exit_at_once", "close_in"};
    size_t live = ro_alloc_live();
    unsigned before = open_descriptors();
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        struct rig rig;
        open_rig(&rig, roles[i]);
        (void)start(&rig, self, roles[i]);
        uint64_t ticket = rig_submit(&rig, INITIALIZE_BODY);
        if (i % 2 == 0) {
            (void)poll(NULL, 0, 20);
        }
        CHECK(ticket != 0);
        int64_t begin = ro_net_now_ms();
        CHECK(rig_close(&rig));
        CHECK(ro_net_now_ms() - begin < 500);
        CHECK(children() == 0);
    }
    CHECK(ro_alloc_live() == live);
    CHECK(open_descriptors() == before);
}

/* A child that reads nothing: what is for it waits within its bound. */
static void
test_a_child_that_does_not_read(void)
{
    struct rig rig;
    static char body[RO_MAX_REQUEST - 1024];
    open_rig(&rig, "deaf");
    int len = snprintf(body, sizeof(body),
                       "{\"jsonrpc\":\"2.0\",\"id\":3,"
                       "\"method\":\"x\",\"params\":"
                       "{\"a\":\"");
    memset(body + len, 'x', sizeof(body) - (size_t)len - 4);
    memcpy(body + sizeof(body) - 4, "\"}}", 4);
    uint64_t tickets[5]; /* four could find room, two by two */
    for (size_t i = 0; i < 5; i++) {
        tickets[i] = rig_submit(&rig, body);
    }
    int64_t until = ro_net_now_ms() + 2000;
    while (rig_count(&rig, 0) == 0 && ro_net_now_ms() < until) {
        (void)poll(NULL, 0, 5);
    }
    CHECK(rig_count(&rig, 0) >= 1); /* one had no room */
    ro_session_end(rig.session);
    for (size_t i = 0; i < 5; i++) {
        ro_reply *reply = rig_wait(&rig, tickets[i], 2000);
        CHECK(reply_has(reply, "error"));
        ro_reply_free(reply);
    }
    CHECK(rig_close(&rig));
    CHECK(children() == 0);
}

/* ---- memory ---- */

static bool
live(struct rig *rig)
{
    static const char *const bodies[]
        = {INITIALIZE_BODY, INITIALIZED_BODY, LIST_BODY, CALL_BODY};
    bool whole = true;
    if (!rig_open(rig)) {
        if (rig->net != NULL) {
            whole = ro_net_shut_down(rig->net, 5000);
            ro_net_free(rig->net);
        }
        ro_call_free(rig->call);
        return whole;
    }
    rig->session = start(rig, self, "early");
    for (size_t i = 0; rig->session != NULL && i < 4; i++) {
        if (i == 3) {
            (void)ro_call_open(rig->call, ro_slice_str("srv"),
                               ro_slice_str("{\"a\":1.10}"));
        }
        uint64_t ticket = rig_submit(rig, bodies[i]);
        if (ticket != 0) {
            ro_reply *reply = rig_wait(rig, ticket, 3000);
            whole = reply != NULL && whole;
            ro_reply_free(reply);
            whole = rig_count(rig, ticket) == 0 && whole;
        }
    }
    return rig_close(rig) && whole;
}

static void
test_every_allocation_fails_in_turn(void)
{
    struct rig rig;
    bool beyond = false;
    size_t nth = 1;
    memset(&rig, 0, sizeof(rig));
    snprintf(rig.url, sizeof(rig.url), "%s", RO_STDIO_URL);
    CHECK(live(&rig));
    size_t before = ro_alloc_live();
    for (; !beyond && nth < 3000; nth++) {
        ro_alloc_fail_at(nth, 0);
        bool whole = live(&rig);
        beyond = ro_alloc_count() < nth;
        ro_alloc_fail_at(0, 0);
        if (!whole || ro_alloc_live() != before) {
            fprintf(stderr, "allocation %zu: %zu blocks left\n", nth,
                    ro_alloc_live() - before);
        }
        CHECK(whole);
        CHECK(ro_alloc_live() == before);
    }
    CHECK(beyond);
    CHECK(children() == 0);
}

int
main(int argc, char **argv)
{
    char path[4096];
    if (argc == 2) {
        return play(argv[1]);
    }
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (len <= 0) {
        return EXIT_FAILURE;
    }
    path[len] = '\0';
    self = path;
    test_each_child_at_the_call();
    test_a_flood_of_blank_lines_is_bounded();
    test_what_cannot_be_started();
    test_a_child_that_exits_is_a_prompt_error();
    test_a_stubborn_child_is_ended();
    test_close_waits_for_the_child();
    test_free_ends_every_child();
    test_a_child_that_does_not_read();
    test_every_allocation_fails_in_turn();
    return check_end();
}
