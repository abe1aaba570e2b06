#include "mcp/gate.h"

#include <pthread.h>

#include "core/alloc.h"
#include "core/json.h"
#include "core/limits.h"
#include "mcp/owner.h"

struct ro_gate {
    pthread_mutex_t lock; /* all below but tool */
    char *tool_bytes;
    ro_slice tool;
    ro_gate_state state;
    char *server; /* the one that the gate is open for */
    size_t server_len;
    ro_buf arguments;
};

ro_gate *
ro_gate_new(ro_slice tool)
{
    ro_gate *gate = ro_calloc(1, sizeof(*gate));
    if (gate == NULL) {
        return NULL;
    }
    gate->tool_bytes = ro_memdup(tool.ptr, tool.len);
    if (gate->tool_bytes == NULL
        || pthread_mutex_init(&gate->lock, NULL) != 0) {
        ro_free(gate->tool_bytes);
        ro_free(gate);
        return NULL;
    }
    gate->tool = ro_slice_of(gate->tool_bytes, tool.len);
    ro_buf_init(&gate->arguments, RO_MAX_STDIN);
    return gate;
}

void
ro_gate_free(ro_gate *gate)
{
    if (gate == NULL) {
        return;
    }
    ro_buf_free(&gate->arguments);
    ro_free(gate->server);
    ro_free(gate->tool_bytes);
    (void)pthread_mutex_destroy(&gate->lock);
    ro_free(gate);
}

ro_gate_state
ro_gate_state_of(ro_gate *gate)
{
    if (gate == NULL) {
        return RO_GATE_CLOSED;
    }
    pthread_mutex_lock(&gate->lock);
    ro_gate_state state = gate->state;
    pthread_mutex_unlock(&gate->lock);
    return state;
}

bool
ro_gate_open(ro_gate *gate, ro_discovery *discovery, ro_slice server,
             ro_slice arguments)
{
    bool opened = false;
    if (gate == NULL || !ro_owner_can(server, gate->tool)
        || ro_discovery_judge(discovery, server) != RO_HINTS_READ_ONLY) {
        return false;
    }
    char *copy = ro_memdup(server.ptr, server.len);
    if (copy == NULL) {
        return false;
    }
    pthread_mutex_lock(&gate->lock);
    if (gate->state == RO_GATE_CLOSED
        && ro_json_minify(arguments, &gate->arguments) == RO_BUF_OK) {
        gate->server = copy;
        gate->server_len = server.len;
        gate->state = RO_GATE_OPEN;
        copy = NULL;
        opened = true;
    }
    pthread_mutex_unlock(&gate->lock);
    ro_free(copy);
    return opened;
}

bool
ro_gate_pass(ro_gate *gate, ro_slice server, ro_slice name, ro_buf *out)
{
    bool passed = false;
    if (gate == NULL) {
        return false;
    }
    /* Looking and closing are one step: of two calls that come at a time, one
     * passes. Whatever becomes of the request, the gate stays closed. */
    pthread_mutex_lock(&gate->lock);
    if (gate->state == RO_GATE_OPEN
        && ro_slice_equal(server, ro_slice_of(gate->server, gate->server_len))
        && ro_owner_has(server, name, gate->tool)
        && ro_buf_append_slice(out, ro_buf_slice(&gate->arguments))
               == RO_BUF_OK) {
        gate->state = RO_GATE_USED;
        passed = true;
    }
    pthread_mutex_unlock(&gate->lock);
    return passed;
}
