#include "mcp/allowance.h"

#include "core/limits.h"
#include "core/monotonic.h"

bool
ro_session_pass_over(ro_session *session)
{
    if (session->junk > RO_MAX_JUNK) {
        return false; /* not counted on: it cannot wrap */
    }
    return ++session->junk <= RO_MAX_JUNK;
}

void
ro_session_answer(ro_session *session, const ro_rpc *request)
{
    ro_buf message;
    if (session->answers >= RO_MAX_ANSWERS_SENT) {
        return;
    }
    session->answers++;
    ro_buf_init(&message, RO_MAX_REQUEST);
    if (ro_rpc_write_answer(&message, request) == RO_BUF_OK) {
        session->carrier->answer(session, ro_buf_slice(&message));
    }
    ro_buf_free(&message);
}

int
ro_session_get_delay(ro_session *session, int wanted_ms)
{
    int64_t now = ro_monotonic_ms();
    int64_t when = now + wanted_ms;
    if (session->gets == RO_MAX_GETS) {
        return -1;
    }
    if (when < session->next_get) {
        when = session->next_get;
    }
    session->gets++;
    session->next_get = when + RO_MIN_RETRY_MS;
    return when - now > RO_DEADLINE_MS ? RO_DEADLINE_MS : (int)(when - now);
}
