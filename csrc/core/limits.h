/* Every limit of the project, each with its unit and its reason.
 *
 * Code takes bounds as arguments; the callers that wire the product pass
 * these. No other file holds a number that a peer can run into.
 */
#ifndef RO_CORE_LIMITS_H
#define RO_CORE_LIMITS_H

/* bytes: standard input, one JSON object */
#define RO_MAX_STDIN 131072u
/* bytes: the envelope on standard output, before its newline */
#define RO_MAX_STDOUT 131072u
/* levels: containers inside each other, the outermost is 1 */
#define RO_MAX_DEPTH 64u
/* levels: message, result and tools array around a tool entry */
#define RO_LIST_EXTRA_DEPTH 3u
/* bytes: one discovery answer after content decoding */
#define RO_MAX_DISCOVERY (8u * 1024u * 1024u)
/* bytes: the call's answer after content decoding */
#define RO_MAX_ANSWER (1024u * 1024u)
/* bytes: everything received outside DCode's preflight */
#define RO_MAX_TOTAL (32u * 1024u * 1024u)
/* bytes: response headers of one exchange, all hops and 1xx together */
#define RO_MAX_HEADERS (256u * 1024u)
/* answers: tools/list pages of one session */
#define RO_MAX_PAGES 64u
/* entries: of the tool's own name that are kept of one list; more of them
   could not make it more ambiguous */
#define RO_MAX_ALIKE 64u
/* bytes: one configured header value */
#define RO_MAX_HEADER_VALUE 16384u
/* bytes: one line of a stdio server */
#define RO_MAX_STDIO_LINE (1024u * 1024u)
/* lines: what a stdio server may print that is no JSON-RPC message */
#define RO_MAX_JUNK_LINES 65536u
/* bytes: one JSON-RPC message that the SDK posts, arguments not filled in */
#define RO_MAX_REQUEST (1024u * 1024u)
/* posts: answers to a server's own requests, for one session */
#define RO_MAX_ANSWERS_SENT 256u
/* GETs: streams and resumptions of one session */
#define RO_MAX_GETS 20u
/* milliseconds: one session DELETE gets this head start on the connection
   before the next one opens another */
#define RO_DELETE_TURN_MS 100
/* bytes: the tool name */
#define RO_MAX_TOOL_NAME 128u

/* milliseconds: the work is cancelled */
#define RO_DEADLINE_MS 15000
#define RO_DEADLINE_MIN_MS 100
/* milliseconds: from the first deadline to the end of the process */
#define RO_DEADLINE_GRACE_MS 3000
/* milliseconds: all session DELETEs together, after the envelope */
#define RO_DELETE_WAIT_MS 250
/* milliseconds: an unanswered call before its GET stream is opened */
#define RO_GET_STREAM_AFTER_MS 1000
/* GETs: resumptions of a stream that ended without the answer */
#define RO_MAX_RESUMES 2u
/* milliseconds: least time between two GETs of one exchange */
#define RO_MIN_RETRY_MS 350
/* bytes: a credential shorter than this is not searched for */
#define RO_MIN_SECRET 8u
/* bytes: one configured secret; more than an environment variable holds */
#define RO_MAX_SECRET (1024u * 1024u)
/* values: configured secrets of all servers that can own a name */
#define RO_MAX_SECRETS 4096u
/* levels: JSON inside a string of JSON that is searched for secrets */
#define RO_MAX_NESTED_TEXTS 3u

#endif
