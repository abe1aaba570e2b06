#include "mcp/owner.h"

bool
ro_owner_can(ro_slice server, ro_slice tool)
{
    return server.len != 0 && server.len < tool.len
           && memcmp(tool.ptr, server.ptr, server.len) == 0
           && tool.ptr[server.len] == '_';
}

bool
ro_owner_has(ro_slice server, ro_slice name, ro_slice tool)
{
    return ro_owner_can(server, tool)
           && ro_slice_equal(name, ro_slice_of(tool.ptr + server.len + 1,
                                               tool.len - server.len - 1));
}

ro_buf_code
ro_owner_prefix(ro_slice server, ro_buf *out)
{
    ro_buf_code code = ro_buf_append_slice(out, server);
    return code == RO_BUF_OK ? ro_buf_append_char(out, '_') : code;
}
