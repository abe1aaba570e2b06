/* Why a tool can or cannot be called: beside mcp/reason.h, what the audit says
 * of one tool. Static texts; thread safe.
 */
#ifndef RO_MCP_TOOL_REASON_H
#define RO_MCP_TOOL_REASON_H

#include "core/envelope.h"

/* Why a tool can or cannot be called, beside its hints: id, the code that
 * the call ends with, word, text, what to do. */
#define RO_TOOL_REASONS(X)                                                    \
    X(READ_ONLY, OK, "read_only", "can be called", "call it")                 \
    X(NAME_NOT_CALLABLE, INVALID_TOOL_NAME, "name_not_callable",              \
      "its name is not one that the command takes",                           \
      "rename the server or the tool: letters, digits, _ and -, at most "     \
      "128, the first a letter or a digit")                                   \
    X(BUILT_IN, NOT_MCP_TOOL, "built_in", "it is one of DCode's own tools",   \
      "use the full name of a server's tool, <server>_<tool>")                \
    X(NO_OWNER, TOOL_NOT_FOUND, "no_owner",                                   \
      "no configured server could own the name",                              \
      "see whether a server that the name begins with is configured: dcode "  \
      "mcp config")                                                           \
    X(NOT_LISTED, TOOL_NOT_FOUND, "not_listed",                               \
      "no server that could own the name lists such a tool",                  \
      "look for the name among the server's tools: dcode tools "              \
      "audit-read-only")                                                      \
    X(BROKEN_DEFINITION, TOOL_NOT_FOUND, "broken_definition",                 \
      "DCode's models refuse its definition",                                 \
      "mend the tool's definition on the server")                             \
    X(OUT_OF_BOUNDS, TOOL_NOT_FOUND, "out_of_bounds",                         \
      "its definition has more than 32,768 values or 1 MiB that the SDK "     \
      "would read, or a number of more than 4,300 digits",                    \
      "shorten the tool's definition on the server")                          \
    X(FILTERED, TOOL_NOT_FOUND, "filtered",                                   \
      "allowedTools or disabledTools leave it out",                           \
      "change allowedTools or disabledTools of the server's entry")           \
    X(SERVER_NOT_LOADED, TOOL_NOT_FOUND, "server_not_loaded",                 \
      "its server does not load, see there", "mend the server, see there")    \
    X(AMBIGUOUS, AMBIGUOUS_TOOL, "ambiguous",                                 \
      "more than one tool has this full name", "rename one of the servers")   \
    X(RIVAL_NOT_LOADED, AMBIGUOUS_TOOL, "rival_not_loaded",                   \
      "another server that could own the name does not load",                 \
      "mend or disable that server, or rename it")                            \
    X(MOVED, RUNTIME_FAILURE, "moved",                                        \
      "its server redirects requests behind the handshake",                   \
      "configure the URL that the redirect leads to")

#define X(id, ...) RO_TOOL_##id,
typedef enum ro_tool_reason {
    RO_TOOL_REASONS(X) RO_TOOL_COUNT
} ro_tool_reason;
#undef X

/* A value outside the enum reads as its last one. */
const char *ro_tool_reason_word(ro_tool_reason reason);
const char *ro_tool_reason_text(ro_tool_reason reason);
const char *ro_tool_reason_remedy(ro_tool_reason reason);
ro_code ro_tool_reason_code(ro_tool_reason reason);

#endif
