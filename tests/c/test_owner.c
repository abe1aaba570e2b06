/* Which server owns a tool's full name. */
#include "mcp/owner.h"

#include "check.h"

#define S(text) ro_slice_str(text)

static void
test_owners(void)
{
    static const struct {
        const char *server;
        const char *name;
        const char *tool;
        bool can;
        bool has;
    } cases[] = {
        {"a", "b_c", "a_b_c", true, true},
        {"a_b", "c", "a_b_c", true, true},
        {"a", "b", "a_b_c", true, false},
        {"a_b_c", "", "a_b_c", false, false},
        {"a_b_c", "", "a_b_c_", true, true},
        {"a", "b_c", "A_b_c", false, false},
        {"a", "b", "a-b", false, false},
        {"ab", "c", "a_b_c", false, false},
        {"", "a", "_a", false, false},
        {"a", "b", "", false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ro_slice server = S(cases[i].server);
        ro_slice tool = S(cases[i].tool);
        ro_buf prefix;
        CHECK(ro_owner_can(server, tool) == cases[i].can);
        CHECK(ro_owner_has(server, S(cases[i].name), tool) == cases[i].has);
        ro_buf_init(&prefix, 64);
        CHECK(ro_owner_prefix(server, &prefix) == RO_BUF_OK);
        CHECK(prefix.len == server.len + 1);
        CHECK(!cases[i].can || memcmp(prefix.data, tool.ptr, prefix.len) == 0);
        ro_buf_free(&prefix);
    }
}

int
main(void)
{
    test_owners();
    return check_end();
}
