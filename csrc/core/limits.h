/* Every limit of the project, each with its unit and its reason.
 *
 * Code takes bounds as arguments, and the callers that wire the product pass
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
/* bytes: a URL; the largest that common servers take is far below */
#define RO_MAX_URL 65536u
/* bytes: one configured header value */
#define RO_MAX_HEADER_VALUE 16384u
/* bytes: one line of a stdio server */
#define RO_MAX_STDIO_LINE (1024u * 1024u)
/* bytes: messages that a child has not read yet */
#define RO_MAX_STDIO_QUEUE (4u * 1024u * 1024u)
/* milliseconds: a child that is asked to end, from its closed input to SIGTERM
   and from there to SIGKILL */
#define RO_STDIO_TERM_MS 100
#define RO_STDIO_KILL_MS 400
/* milliseconds: what a child that reads no more may still write; one that is
   exiting closes its input before it is seen to be gone */
#define RO_STDIO_CLOSED_MS 250
/* reads: of what is in the pipe when a child has exited, 16 KiB each. More
   than a pipe holds, whoever else still writes to it */
#define RO_MAX_STDIO_LAST_READS 128u
/* events or lines: what one session may get that is no JSON-RPC message; a
   heartbeat every quarter of a second until the deadline is less */
#define RO_MAX_JUNK 64u
/* bytes: one JSON-RPC message that the SDK posts, arguments not filled in */
#define RO_MAX_REQUEST (1024u * 1024u)
/* posts: answers to a server's own requests, for one session */
#define RO_MAX_ANSWERS_SENT 256u
/* GETs: streams and resumptions of one session */
#define RO_MAX_GETS 20u
/* bytes: received for one transfer of the library and not read yet; the rest
   of it waits in the kernel */
#define RO_MAX_DOWNLOAD_QUEUE 65536u
/* bytes and milliseconds: read off behind an answer that nobody reads any
   further, so that its connection can be used again */
#define RO_DRAIN_BYTES 65536
#define RO_DRAIN_MS 1000
/* milliseconds: a request waits so long for a connection that drains */
#define RO_DRAIN_WAIT_MS 100
/* seconds: a connection that was idle for longer is not used again. Servers
   commonly close after 5; libcurl compares whole seconds, so this is < 4 */
#define RO_IDLE_S 3L
/* bytes: kept of an answer that nobody has asked for yet; the rest of it
   waits on the wire */
#define RO_MAX_AHEAD (1024u * 1024u)
/* milliseconds: DCode's preflight, which gives up after two seconds, shares
   the server with what ran ahead. A server that serves one connection at a
   time gets to the preflight when the others are closed */
#define RO_PREFLIGHT_MS 1000
/* milliseconds: from then on the idle ones are closed this often, for what
   still waits for its answer is idle later */
#define RO_PREFLIGHT_AGAIN_MS 50
/* DELETEs: under way at a time, as many as there are connections */
#define RO_MAX_DELETES 2u
/* milliseconds: one session DELETE gets this head start on the connection
   before the next one opens another */
#define RO_DELETE_TURN_MS 100
/* bytes: a protocol version that is remembered, as a raw string */
#define RO_MAX_VERSION 64u

/* ---- what goes up to the models (mcp/reduce.h) ---- */

/* characters: sign and digits of a number before fraction and exponent. The
   models' JSON reader refuses a longer one, and the SDK then never answers
   its caller */
#define RO_MAX_NUMBER 4300u
/* values and keys: of one session's discovery, or of one answer; up to some
   900 bytes each in the models, where they stand two or three times */
#define RO_MAX_UP_VALUES 32768u
/* bytes: of the same */
#define RO_MAX_UP_BYTES (1024u * 1024u)
/* values and keys, bytes: an inputSchema that goes up as it is. A larger one
   goes up empty: the call's arguments never meet it */
#define RO_MAX_SCHEMA_VALUES 16384u
#define RO_MAX_SCHEMA_BYTES (512u * 1024u)
/* bytes: a nextCursor; the SDK sends it back */
#define RO_MAX_CURSOR 65536u
/* bytes: the JSON-RPC message around a result that goes up */
#define RO_UP_FRAME 1024u
/* bytes: the shortest content block of an envelope, {"type":"file","url":""}
 */
#define RO_MIN_BLOCK 24u

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
/* redirects: one request follows so many, within its origin */
#define RO_MAX_REDIRECTS 5u
/* milliseconds: a pause before a GET where the server wishes none */
#define RO_DEFAULT_RETRY_MS 1000
/* milliseconds: between two looks at a body that is not whole yet */
#define RO_BODY_LOOK_MS 250
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
