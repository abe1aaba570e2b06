/* The tables of causes: one word and one sentence each. */
#include <ctype.h>
#include <string.h>

#include "check.h"
#include "core/hints.h"
#include "mcp/reason.h"
#include "mcp/tool_reason.h"

static bool
is_word(const char *word)
{
    for (const char *c = word; *c != '\0'; c++) {
        if (!islower((unsigned char)*c) && !isdigit((unsigned char)*c)
            && *c != '_') {
            return false;
        }
    }
    return *word != '\0';
}

static bool
is_sentence(const char *text)
{
    size_t len = strlen(text);
    return len > 8 && text[len - 1] != '.' && strchr(text, '\n') == NULL;
}

static void
test_every_reason_has_its_own_word(void)
{
    CHECK(strcmp(ro_reason_word(RO_REASON_NONE), "") == 0);
    for (int i = 1; i < RO_REASON_COUNT; i++) {
        ro_reason reason = (ro_reason)i;
        CHECK(is_word(ro_reason_word(reason)));
        CHECK(is_sentence(ro_reason_text(reason)));
        CHECK(ro_reason_state(reason) != RO_STATE_REACHABLE);
        CHECK(ro_reason_state(reason) < RO_STATE_COUNT);
        for (int k = 0; k < i; k++) {
            CHECK(strcmp(ro_reason_word(reason), ro_reason_word((ro_reason)k))
                  != 0);
        }
    }
    CHECK(ro_reason_state(RO_REASON_NONE) == RO_STATE_REACHABLE);
    CHECK(ro_reason_state(RO_REASON_HTTP_401) == RO_STATE_NEEDS_LOGIN);
}

static void
test_states_and_tools(void)
{
    for (int i = 0; i < RO_STATE_COUNT; i++) {
        CHECK(is_word(ro_state_word((ro_state)i)));
        CHECK(is_sentence(ro_state_text((ro_state)i)));
    }
    for (int i = 0; i < RO_TOOL_COUNT; i++) {
        ro_tool_reason reason = (ro_tool_reason)i;
        CHECK(is_word(ro_tool_reason_word(reason)));
        CHECK(is_sentence(ro_tool_reason_text(reason)));
        /* one reason allows */
        CHECK((ro_tool_reason_code(reason) == RO_CODE_OK)
              == (reason == RO_TOOL_READ_ONLY));
    }
}

static bool
is_remedy(const char *text)
{
    size_t len = strlen(text);
    return len > 4 && text[len - 1] != '.' && strchr(text, '\n') == NULL;
}

static void
test_every_refusal_has_a_remedy(void)
{
    for (int i = 0; i < RO_TOOL_COUNT; i++) {
        CHECK(is_remedy(ro_tool_reason_remedy((ro_tool_reason)i)));
    }
    for (int i = 0; i < RO_HINTS_CODES; i++) {
        CHECK(is_sentence(ro_hints_text((ro_hints_code)i)));
        CHECK(is_remedy(ro_hints_remedy((ro_hints_code)i)));
    }
    CHECK(strstr(ro_hints_remedy(RO_HINTS_ANNOTATIONS_MISSING),
                 "ToolAnnotations(readOnlyHint=True)")
          != NULL);
    CHECK(strcmp(ro_hints_remedy((ro_hints_code)999),
                 ro_hints_remedy(RO_HINTS_MALFORMED))
          == 0);
}

static void
test_what_is_no_reason_reads_as_the_last(void)
{
    CHECK(strcmp(ro_reason_word((ro_reason)999), "internal") == 0);
    CHECK(strcmp(ro_state_word((ro_state)999), "failed") == 0);
    CHECK(ro_tool_reason_code((ro_tool_reason)999) != RO_CODE_OK);
}

static void
test_what_a_transfer_ends_with(void)
{
    static const struct {
        ro_net_code code;
        ro_reason reason;
    } cases[] = {
        {RO_NET_RESOLVE, RO_REASON_UNKNOWN_HOST},
        {RO_NET_REFUSED, RO_REASON_REFUSED_PORT},
        {RO_NET_CONNECT, RO_REASON_NO_CONNECTION},
        {RO_NET_CERTIFICATE, RO_REASON_CERTIFICATE},
        {RO_NET_TLS, RO_REASON_TLS},
        {RO_NET_BAD_TRUST, RO_REASON_BAD_TRUST},
        {RO_NET_PROXY, RO_REASON_PROXY},
        {RO_NET_BAD_PROXY, RO_REASON_BAD_PROXY},
        {RO_NET_RECEIVE, RO_REASON_CLOSED_BY_SERVER},
        {RO_NET_REPLAY, RO_REASON_CLOSED_BY_SERVER},
        {RO_NET_PROTOCOL, RO_REASON_NOT_HTTP},
        {RO_NET_READ_TIMEOUT, RO_REASON_SILENT},
        {RO_NET_OK, RO_REASON_INTERNAL},
        {(ro_net_code)999, RO_REASON_INTERNAL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK(ro_reason_of_net(cases[i].code) == cases[i].reason);
    }
    for (int code = RO_NET_CANCELLED; code < RO_NET_SINK; code++) {
        CHECK((ro_reason_of_net((ro_net_code)code) == RO_REASON_INTERNAL)
              == (code == RO_NET_FORKED));
    }
}

int
main(void)
{
    test_every_reason_has_its_own_word();
    test_states_and_tools();
    test_every_refusal_has_a_remedy();
    test_what_is_no_reason_reads_as_the_last();
    test_what_a_transfer_ends_with();
    return check_end();
}
