/* What a stream may say before the answer to request 2, and what it is: one
 * table for every carrier. No text holds a line feed. */
#ifndef RO_TEST_MESSAGES_H
#define RO_TEST_MESSAGES_H

#include "mcp/message.h"

#define RPC "\"jsonrpc\":\"2.0\","
#define BOM "\xef\xbb\xbf"
#define DEEP8 "[[[[[[[["
#define DEEP72 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8

struct said {
    const char *text;
    ro_message_kind kind;
    const char *id; /* of an answer or a claim */
    bool decides;   /* for who waits for 2: as a wrong answer */
};

static const struct said said[] = {
    /* no message: passed over */
    {"{\"type\":\"heartbeat\"}", RO_MESSAGE_JUNK, "", false},
    {BOM "{\"type\":\"heartbeat\"}", RO_MESSAGE_JUNK, "", false},
    {"{}", RO_MESSAGE_JUNK, "", false},
    {"[]", RO_MESSAGE_JUNK, "", false},
    {"[{" RPC "\"id\":2,\"result\":{}}]", RO_MESSAGE_JUNK, "", false},
    {"\"x\"", RO_MESSAGE_JUNK, "", false},
    {"5", RO_MESSAGE_JUNK, "", false},
    {"null", RO_MESSAGE_JUNK, "", false},
    {"hello", RO_MESSAGE_JUNK, "", false},
    {" ", RO_MESSAGE_JUNK, "", false},
    {BOM, RO_MESSAGE_JUNK, "", false},
    {"{", RO_MESSAGE_JUNK, "", false},
    {"{\"", RO_MESSAGE_JUNK, "", false},
    {"{\"a\\", RO_MESSAGE_JUNK, "", false},
    {"\xff\xfe", RO_MESSAGE_JUNK, "", false},
    {"{\"log\":NaN}", RO_MESSAGE_JUNK, "", false},
    {"{\"log\":\"\xff\"}", RO_MESSAGE_JUNK, "", false},
    {"{" RPC "\"method\":\"x\",\"params\":{\"a\":NaN}}", RO_MESSAGE_JUNK, "",
     false},
    {"{" RPC "\"id\":2,\"method\":5}", RO_MESSAGE_JUNK, "", false},
    {"{" RPC "\"id\":2}", RO_MESSAGE_JUNK, "", false},
    {"{" RPC "\"result\":{}}", RO_MESSAGE_JUNK, "", false},
    {"{\"result\":\"ok\"}", RO_MESSAGE_JUNK, "", false},
    {"{\"data\":{\"id\":2,\"result\":1}}", RO_MESSAGE_JUNK, "", false},
    {"{\"a\":NaN,\"b\":{\"id\":2,\"result\":1}}", RO_MESSAGE_JUNK, "", false},
    {"INFO {" RPC "\"id\":2,\"result\":{}}", RO_MESSAGE_JUNK, "", false},
    {"{\"note\":\"\\\"id\\\":2,\\\"result\\\":1\",}", RO_MESSAGE_JUNK, "",
     false},
    /* somebody else's claim */
    {"{\"id\":99,\"result\":{}}", RO_MESSAGE_CLAIM, "99", false},
    {"{" RPC "\"id\":99,\"result\":NaN}", RO_MESSAGE_CLAIM, "99", false},
    {"{\"id\":\"2\",\"error\":NaN}", RO_MESSAGE_CLAIM, "\"2\"", false},
    /* a message of another kind */
    {"{" RPC "\"method\":\"x\"}", RO_MESSAGE_NOTIFICATION, "", false},
    /* an answer, which decides */
    {"{" RPC "\"id\":9,\"result\":{}}", RO_MESSAGE_ANSWER, "9", true},
    {BOM "{" RPC "\"id\":9,\"result\":{}}", RO_MESSAGE_ANSWER, "9", true},
    {"{" RPC "\"id\":\"2\",\"result\":{}}", RO_MESSAGE_ANSWER, "\"2\"", true},
    {"{" RPC "\"id\":null,\"result\":{}}", RO_MESSAGE_ANSWER, "null", true},
    {"{" RPC "\"id\":null,\"error\":{\"code\":1,\"message\":\"\"}}",
     RO_MESSAGE_ANSWER, "null", true},
    {"{" RPC "\"id\":2.0,\"result\":{}}", RO_MESSAGE_ANSWER, "2.0", true},
    {"{" RPC "\"id\":9,\"error\":\"no\"}", RO_MESSAGE_ANSWER, "9", true},
    {"{" RPC "\"id\":2,\"error\":\"no\"}", RO_MESSAGE_ANSWER, "2", true},
    {"{" RPC "\"id\":2,\"result\":{},\"error\":{}}", RO_MESSAGE_ANSWER, "2",
     true},
    {"{" RPC "\"id\":2,\"result\":[]}", RO_MESSAGE_ANSWER, "2", true},
    /* claims to be the answer, and is broken */
    {"{\"id\":2,\"result\":{\"content\":[]}}", RO_MESSAGE_CLAIM, "2", true},
    {"{\"jsonrpc\":\"1.0\",\"id\":2,\"result\":{\"content\":[]}}",
     RO_MESSAGE_CLAIM, "2", true},
    {"{" RPC "\"id\":2,\"method\":\"x\",\"result\":{}}", RO_MESSAGE_CLAIM, "2",
     true},
    {"{" RPC "\"id\":2,\"result\":{\"content\":[NaN]}}", RO_MESSAGE_CLAIM, "2",
     true},
    {"{" RPC "\"result\":{\"content\":[NaN]},\"id\":2}", RO_MESSAGE_CLAIM, "2",
     true},
    {"{" RPC "\"id\":2,\"re\\u0073ult\":NaN}", RO_MESSAGE_CLAIM, "2", true},
    {"{" RPC "\"id\":2,\"error\":{\"code\":01}}", RO_MESSAGE_CLAIM, "2", true},
    {"{" RPC "\"id\":2,\"result\":{\"content\":\"\xff\"}}", RO_MESSAGE_CLAIM,
     "2", true},
    {"{" RPC "\"id\":2,\"result\":{\"content\":\"\\ud800\"}}",
     RO_MESSAGE_CLAIM, "2", true},
    {"{" RPC "\"id\":2,\"result\":{\"content\":[", RO_MESSAGE_CLAIM, "2",
     true},
    {"{" RPC "\"id\":2,\"result\":" DEEP72, RO_MESSAGE_CLAIM, "2", true},
    {"{" RPC "\"id\" : 2 ,\"result\":{}}x", RO_MESSAGE_CLAIM, "2", true},
    {BOM BOM "{" RPC "\"id\":2,\"result\":{\"content\":[]}}", RO_MESSAGE_CLAIM,
     "2", true},
    {BOM " {\"id\":2,\"result\":{}", RO_MESSAGE_CLAIM, "2", true},
};

#define SAID (sizeof(said) / sizeof(said[0]))

#endif
