/* A stdio server: one child, whose standard streams carry a message a line.
 */
#ifndef RO_MCP_STDIO_H
#define RO_MCP_STDIO_H

#include <stdbool.h>
#include <sys/resource.h>

#include "mcp/carrier.h"

extern const ro_carrier ro_stdio_carrier;
/* Its state, with the child started. On a thread that lives as long as the
 * child is to live (mcp/child.h). argv and envp end in NULL; argv[0] is a
 * path. NULL with errno set when it cannot be. */
void *ro_stdio_new(char *const argv[], char *const envp[],
                   const rlim_t *core_limit);
/* Read what the child says from now on: once, when the session has its state
 * and before its first exchange. False with errno set. */
bool ro_stdio_start(ro_session *session);

#endif
