/* Sessions over a child's standard streams. */
#include "messages.h"
#include "entries.h"
#include "session_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

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
    for (unsigned i = 13; i < RO_MAX_JUNK; i++) {
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
    else if (strncmp(role, "said ", 5) == 0) {
        say(said[strtoul(role + 5, NULL, 10)].text);
        say("\n");
        return true;
    }
    else if (strcmp(role, "junk") == 0) {
        say_junk();
        return true;
    }
    else if (strcmp(role, "more_junk") == 0) {
        say_junk();
        say("x\n");
        return true;
    }
    else if (strcmp(role, "marked") == 0) {
        say(BOM CALL_ANSWER "\n");
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
    else if (strcmp(role, "close_in_call") == 0) {
        (void)close(STDIN_FILENO);
        wait_for_ever();
    }
    else if (strcmp(role, "close_in_answer") == 0) {
        (void)close(STDIN_FILENO);
        (void)poll(NULL, 0, 50);
        return true;
    }
    else if (strcmp(role, "mute") != 0) {
        return true;
    }
    return false;
}

/* Says what it is, in the place of an answer to initialize. */
static int
play_mirror(void)
{
    struct rlimit core;
    sigset_t mask;
    struct sigaction action;
    int death = 0;
    int odd = 0;
    char line[256];
    (void)prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0);
    (void)getrlimit(RLIMIT_CORE, &core);
    (void)sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int number = 1; number < 32; number++) {
        (void)sigaction(number, NULL, &action);
        odd += sigismember(&mask, number) == 1;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        /* a sanitizer's program has handlers of its own */
        odd += action.sa_handler != SIG_DFL && number != SIGHUP;
#endif
    }
    bool closed = true;
    for (int fd = 3; fd < 64; fd++) {
        closed = closed && fcntl(fd, F_GETFD) < 0;
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    odd += core.rlim_cur != 4096; /* a sanitizer sets a limit of its own */
#endif
    bool good = death == SIGKILL && odd == 0 && closed && getsid(0) == getpid()
                && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
    (void)hear(line, sizeof(line));
    say(good ? INITIALIZE_ANSWER "\n" : "{\"jsonrpc\":\"2.0\",\"id\":9}\n");
    return 0;
}

static int
play(const char *role)
{
    char line[65536];
    while (strcmp(role, "pour_at_once") == 0) { /* until it is killed */
        char piece[4096];
        memset(piece, 'x', sizeof(piece));
        (void)!write(1, piece, sizeof(piece));
    }
    if (strcmp(role, "exit_at_once") == 0) {
        return 1;
    }
    if (strcmp(role, "mirror") == 0) {
        return play_mirror();
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
    return rig_discover(rig) && rig_open_gate(rig, "{ \"a\": 1.10 }");
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

static bool
no_children_within(int ms)
{
    int64_t until = ro_monotonic_ms() + ms;
    while (children() != 0) {
        if (ro_monotonic_ms() > until) {
            return false;
        }
        (void)poll(NULL, 0, 5);
    }
    return true;
}

/* The one child is as far as not to end by SIGTERM. */
static bool
ignores_term(void)
{
    char path[64];
    char line[256];
    long pid = 0;
    unsigned long long ignored = 0;
    (void)snprintf(path, sizeof(path), "/proc/self/task/%ld/children",
                   (long)getpid());
    FILE *file = fopen(path, "re");
    bool found = file != NULL && fscanf(file, "%ld", &pid) == 1;
    if (file != NULL) {
        (void)fclose(file);
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/status", pid);
    file = found ? fopen(path, "re") : NULL;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "SigIgn: %llx", &ignored);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return (ignored >> (SIGTERM - 1) & 1) != 0;
}

static bool
ignores_term_within(int ms)
{
    int64_t until = ro_monotonic_ms() + ms;
    while (!ignores_term()) {
        if (ro_monotonic_ms() > until) {
            return false;
        }
        (void)poll(NULL, 0, 2);
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
        {"more_junk", RO_CODE_RUNTIME_FAILURE},
        {"marked", RO_CODE_OK},
        {"exit", RO_CODE_OK},
        {"heir", RO_CODE_OK},
        {"close_in_answer", RO_CODE_OK},
        {"close_in_call", RO_CODE_RUNTIME_FAILURE},
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
        size_t before = open_descriptors();
        open_rig(&rig, cases[i].role);
        CHECK(reach_call(&rig));
        int64_t begin = ro_monotonic_ms();
        ro_reply *reply = rig_wait(&rig, rig_submit(&rig, CALL_BODY), 6000);
        int took = (int)(ro_monotonic_ms() - begin);
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
test_what_is_no_message(void)
{
    for (unsigned i = 0; i < SAID; i++) {
        struct rig rig;
        char role[16];
        int code = said[i].decides ? RO_CODE_MALFORMED_RESULT : RO_CODE_OK;
        snprintf(role, sizeof(role), "said %u", i);
        open_rig(&rig, role);
        CHECK(reach_call(&rig));
        CHECK(rig_ask(&rig, CALL_BODY, 200,
                      said[i].decides ? "\"error\"" : "\"content\""));
        if (rig_outcome(&rig) != code) {
            fprintf(stderr, "%s: outcome %d\n", said[i].text,
                    rig_outcome(&rig));
        }
        CHECK(rig_outcome(&rig) == code);
        ro_mcp_close(rig.mcp, 1000);
        CHECK(rig_close(&rig));
    }
    CHECK(no_children_within(1000));
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
    size_t before = open_descriptors();
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
        int64_t begin = ro_monotonic_ms();
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "error"));
        CHECK(ro_monotonic_ms() - begin < PROMPT_MS);
        ro_reason note = rig_noted(&rig);
        CHECK(note == RO_REASON_EXITED);
        CHECK(no_children_within(1000)); /* reaped before any end */
        CHECK(rig_ask(&rig, LIST_BODY, 200, "error"));
        CHECK(rig_close(&rig));
    }
}

/* Also when it was over before the first request came. */
static void
test_a_child_that_pours_is_noted_as_that(void)
{
    struct rig rig;
    open_rig(&rig, "pour_at_once");
    CHECK(no_children_within(5000));
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "error"));
    CHECK(rig_noted(&rig) == RO_REASON_LINE_TOO_LARGE);
    CHECK(rig_close(&rig));
}

/* One that closes its input and lives on, whatever it was sent before. */
static void
test_a_child_that_reads_no_more_is_a_prompt_error(void)
{
    struct rig rig;
    open_rig(&rig, "close_in");
    int64_t begin = ro_monotonic_ms();
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "error"));
    CHECK(ro_monotonic_ms() - begin < PROMPT_MS);
    ro_reason note = rig_noted(&rig);
    CHECK(note == RO_REASON_CLOSED_INPUT);
    CHECK(no_children_within(2000)); /* it is ended at once, not at the end */
    CHECK(rig_ask(&rig, LIST_BODY, 200, "error"));
    CHECK(rig_close(&rig));
}

/* ---- what a child is given ---- */

static void
handler(int number)
{
    (void)number;
}

static void
test_what_a_child_is_given(void)
{
    static const rlim_t core = 4096;
    struct rig rig;
    struct rlimit before;
    struct rlimit none;
    sigset_t some;
    char *argv[] = {self, (char *)(size_t) "mirror", NULL};
    char *envp[] = {NULL};
    ro_session_options options = {
        .server = ro_slice_str("srv"),
        .url = RO_STDIO_URL,
        .proxy = "",
        .cafile = "",
        .capath = "",
        .core_limit = &core,
    };
    memset(&rig, 0, sizeof(rig));
    snprintf(rig.url, sizeof(rig.url), "%s", RO_STDIO_URL);
    CHECK(rig_open(&rig));
    CHECK(getrlimit(RLIMIT_CORE, &before) == 0);
    none = before;
    none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    (void)signal(SIGUSR1, handler);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&some);
    (void)sigaddset(&some, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &some, NULL);
    CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
    int kept = dup(0); /* not close-on-exec */
    rig.session = ro_mcp_stdio_session(rig.mcp, &options, argv, envp);
    CHECK(rig.session != NULL);
    CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "capabilities"));
    CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
    (void)sigprocmask(SIG_UNBLOCK, &some, NULL);
    (void)signal(SIGUSR1, SIG_DFL);
    CHECK(setrlimit(RLIMIT_CORE, &before) == 0);
    (void)close(kept);
    CHECK(rig_close(&rig));
}

/* The process is killed: nothing of it runs any more, but the child goes. */
static void
test_a_child_ends_with_a_process_that_is_killed(void)
{
    int status;
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rig rig;
        memset(&rig, 0, sizeof(rig));
        snprintf(rig.url, sizeof(rig.url), "%s", RO_STDIO_URL);
        if (!rig_open(&rig) || start(&rig, self, "deaf") == NULL) {
            _exit(1);
        }
        (void)kill(getpid(), SIGKILL);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    /* the child, which ignores SIGTERM and never reads, is ours by now */
    CHECK(waitpid(-1, &status, 0) > 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(children() == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0);
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
            ro_reply_free(rig_wait(&rig, ticket, 8000));
        }
        CHECK(ignores_term_within(8000));
        int64_t begin = ro_monotonic_ms();
        ro_session_end(rig.session);
        ro_session_end(rig.session);
        CHECK(no_children_within(8000));
        int took = (int)(ro_monotonic_ms() - begin);
        /* the last has begun to end by itself: it reads no more */
        CHECK(i == 2 || took >= 450);
        if (i != 0) { /* what waited has its answer */
            ro_reply *reply = rig_wait(&rig, ticket, 8000);
            CHECK(reply_has(reply, "error"));
            ro_reply_free(reply);
        }
        CHECK(rig_close(&rig));
    }
}

static void
hold_worker(void *ctx)
{
    while (sem_wait(ctx) != 0) {
    }
}

/* Without a descriptor for the epoll set nothing is read and no exit is seen:
 * the requests fail at once, and the child is ended and reaped by looks. */
static void
test_a_child_that_cannot_be_watched(void)
{
    static const char *const roles[] = {"good", "stubborn"};
    for (size_t i = 0; i < 2; i++) {
        struct rig rig;
        struct rlimit before;
        sem_t go;
        CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
        memset(&rig, 0, sizeof(rig));
        snprintf(rig.url, sizeof(rig.url), "%s", RO_STDIO_URL);
        CHECK(rig_open(&rig) && sem_init(&go, 0, 0) == 0);
        CHECK(ro_net_run(rig.net, hold_worker, &go) == RO_NET_OK);
        rig.session = start(&rig, self, roles[i]);
        CHECK(rig.session != NULL);
        int lowest = dup(STDERR_FILENO);
        CHECK(lowest > 0 && close(lowest) == 0);
        struct rlimit none = {(rlim_t)lowest, before.rlim_max};
        CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
        CHECK(sem_post(&go) == 0);
        CHECK(rig_ask(&rig, INITIALIZE_BODY, 200, "error"));
        CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
        CHECK(rig_noted(&rig) == RO_REASON_INTERNAL);
        CHECK(no_children_within(3000));
        CHECK(rig_close(&rig));
        sem_destroy(&go);
    }
}

static void
test_close_waits_for_the_child(void)
{
    struct rig rig;
    open_rig(&rig, "good");
    CHECK(rig_discover(&rig));
    int64_t begin = ro_monotonic_ms();
    ro_mcp_close(rig.mcp, 10000);
    CHECK(ro_monotonic_ms() - begin < PROMPT_MS); /* it ends with its input */
    CHECK(children() == 0);
    CHECK(rig_close(&rig));
    open_rig(&rig, "stubborn");
    CHECK(rig_discover(&rig));
    begin = ro_monotonic_ms();
    ro_mcp_close(rig.mcp, 100);
    CHECK(ro_monotonic_ms() - begin < 2000);
    CHECK(children() == 1);
    CHECK(rig_close(&rig)); /* without grace */
    CHECK(children() == 0);
}

/* milliseconds that a child without grace takes, with a request under way */
static int64_t
ms_to_close(const char *role, bool settles)
{
    struct rig rig;
    open_rig(&rig, role);
    (void)start(&rig, self, role);
    uint64_t ticket = rig_submit(&rig, INITIALIZE_BODY);
    if (settles) {
        (void)poll(NULL, 0, 20);
    }
    CHECK(ticket != 0);
    int64_t begin = ro_monotonic_ms();
    CHECK(rig_close(&rig));
    int64_t took = ro_monotonic_ms() - begin;
    CHECK(children() == 0);
    return took;
}

static void
test_free_ends_every_child(void)
{
    static const char *const roles[]
        = {"good", "deaf", "stubborn", "mute", "exit_at_once", "close_in"};
    enum { GRACE_MS = RO_STDIO_TERM_MS + RO_STDIO_KILL_MS };
    size_t live = ro_alloc_live();
    size_t before = open_descriptors();
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        /* a busy machine may take as long as grace does, but not every time */
        int64_t took = GRACE_MS;
        for (int tries = 0; tries < 5 && took >= GRACE_MS; tries++) {
            took = ms_to_close(roles[i], i % 2 == 0);
        }
        CHECK(took < GRACE_MS);
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
    int64_t until = ro_monotonic_ms() + 2000;
    while (rig_count(&rig, 0) == 0 && ro_monotonic_ms() < until) {
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
        rig_free_found(rig);
        return whole;
    }
    rig->session = start(rig, self, "early");
    for (size_t i = 0; rig->session != NULL && i < 4; i++) {
        if (i == 3) {
            (void)rig_open_gate(rig, "{\"a\":1.10}");
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
    test_what_is_no_message();
    test_a_flood_of_blank_lines_is_bounded();
    test_what_cannot_be_started();
    test_a_child_that_exits_is_a_prompt_error();
    test_a_child_that_pours_is_noted_as_that();
    test_a_child_that_reads_no_more_is_a_prompt_error();
    test_what_a_child_is_given();
    test_a_child_ends_with_a_process_that_is_killed();
    test_a_stubborn_child_is_ended();
    test_a_child_that_cannot_be_watched();
    test_close_waits_for_the_child();
    test_free_ends_every_child();
    test_a_child_that_does_not_read();
    test_every_allocation_fails_in_turn();
    return check_end();
}
