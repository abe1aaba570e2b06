#include "mcp/ahead_plan.h"

#include "core/alloc.h"
#include "mcp/message.h"

static const char *const methods[RO_AHEAD_STEPS]
    = {"initialize", "notifications/initialized", "tools/list"};

static char *
copy(ro_slice text)
{
    return ro_memdup(text.ptr, text.len);
}

/* Whether body is the message that this step is for, and nothing else. */
static bool
is_message_of(ro_slice body, unsigned index)
{
    ro_message message;
    ro_message_read(body, &message);
    return (message.kind == RO_MESSAGE_REQUEST
            || message.kind == RO_MESSAGE_NOTIFICATION)
           && ro_rpc_method_is(&message.rpc, methods[index]);
}

bool
ro_ahead_said_copy(ro_ahead_said *said, const ro_ahead_plan *plan)
{
    const ro_slice bodies[RO_AHEAD_STEPS]
        = {plan->initialize, plan->initialized, plan->list};
    said->server = copy(plan->server);
    said->url = copy(ro_slice_str(plan->url));
    said->proxy = copy(ro_slice_str(plan->proxy));
    said->cafile = copy(ro_slice_str(plan->cafile));
    said->capath = copy(ro_slice_str(plan->capath));
    said->versions = copy(ro_slice_str(plan->versions));
    for (unsigned i = 0; i < RO_AHEAD_STEPS; i++) {
        if (!is_message_of(bodies[i], i)) {
            return false;
        }
        said->bodies[i] = copy(bodies[i]);
        if (said->bodies[i] == NULL) {
            return false;
        }
    }
    return said->server != NULL && said->url != NULL && said->proxy != NULL
           && said->cafile != NULL && said->capath != NULL
           && said->versions != NULL
           && ro_header_list_copy(&said->headers, plan->headers,
                                  plan->n_headers);
}

void
ro_ahead_said_free(ro_ahead_said *said)
{
    for (unsigned i = 0; i < RO_AHEAD_STEPS; i++) {
        ro_free(said->bodies[i]);
    }
    ro_header_list_free(&said->headers);
    ro_free(said->server);
    ro_free(said->url);
    ro_free(said->proxy);
    ro_free(said->cafile);
    ro_free(said->capath);
    ro_free(said->versions);
}

bool
ro_ahead_speaks(const ro_ahead_said *said, ro_slice version)
{
    for (const char *at = said->versions; *at != '\0';) {
        size_t len = strcspn(at, " ");
        if (ro_slice_equal(ro_slice_of(at, len), version)) {
            return true;
        }
        at += len + strspn(at + len, " ");
    }
    return false;
}
