/* sources: mcp/gate.c mcp/owner.c core/buf.c core/alloc.c
 * options: --unwind 8
 *
 * Whatever four requests to open and to pass come in whatever order, with
 * whatever server and tool names of up to 5 bytes, at most one passes: after
 * an opening that the verdict allowed, for the very server that it was for,
 * under the very name that the tool has there, with those arguments. */
#include "prove.h"

#include "mcp/gate.h"

#include <pthread.h>

#include "core/json.h"

#define MOST 5
#define REQUESTS 4

/* One thread: what locks do is not in question here. */
int
pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *how)
{
    (void)mutex, (void)how;
    return 0;
}

int
pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

int
pthread_mutex_lock(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

int
pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

/* Any verdict, another one each time. */
static bool allowed;

ro_hints_code
ro_discovery_judge(ro_discovery *discovery, ro_slice server)
{
    (void)discovery, (void)server;
    allowed = nondet_bool();
    return allowed ? RO_HINTS_READ_ONLY : RO_HINTS_ENTRY_NOT_OBJECT;
}

/* One byte that says which opening it came with, or no memory. */
ro_buf_code
ro_json_minify(ro_slice value, ro_buf *out)
{
    return nondet_bool() ? ro_buf_append_slice(out, value) : RO_BUF_NO_MEMORY;
}

static ro_slice
any_slice(size_t most)
{
    size_t len = any_size(most);
    return ro_slice_of(any_bytes(len), len);
}

void
prove(void)
{
    ro_slice tool = any_slice(MOST);
    ro_gate *gate = ro_gate_new(tool);
    ASSUME(gate != NULL);
    ro_slice owner = {NULL, 0};
    char mark = 0;
    bool opened = false;
    unsigned passed = 0;

    for (char i = 1; i <= REQUESTS; i++) {
        ro_slice server = any_slice(MOST);
        if (nondet_bool()) {
            ro_slice arguments = ro_slice_of(&i, 1);
            if (ro_gate_open(gate, NULL, server, arguments)) {
                CLAIM(allowed && !opened);
                opened = true;
                owner = server;
                mark = i;
            }
            continue;
        }
        ro_slice name = any_slice(MOST);
        ro_buf out;
        ro_buf_init(&out, nondet_bool() ? 1 : 0); /* too little room is one */
        if (!ro_gate_pass(gate, server, name, &out)) {
            CLAIM(out.len == 0);
            continue;
        }
        passed++;
        CLAIM(opened && ro_slice_equal(server, owner));
        CLAIM(server.len + 1 + name.len == tool.len);
        CLAIM(memcmp(tool.ptr, server.ptr, server.len) == 0);
        CLAIM(tool.ptr[server.len] == '_');
        CLAIM(memcmp(tool.ptr + server.len + 1, name.ptr, name.len) == 0);
        CLAIM(out.len == 1 && out.data[0] == mark);
    }
    CLAIM(passed <= (IS_TWIN ? 0 : 1));
    CLAIM((ro_gate_state_of(gate) == RO_GATE_USED) == (passed == 1));
}
