/* One message of a stream, by itself. */
#include "messages.h"

#include "check.h"
#include "core/alloc.h"

static void
test_what_each_text_is(void)
{
    for (size_t i = 0; i < SAID; i++) {
        ro_message message;
        ro_message_read(ro_slice_str(said[i].text), &message);
        bool good = message.kind == said[i].kind
                    && ro_slice_equal(message.id, ro_slice_str(said[i].id));
        if (!good) {
            fprintf(stderr, "%s: kind %d, id %.*s\n", said[i].text,
                    (int)message.kind, (int)message.id.len, message.id.ptr);
        }
        CHECK(good);
    }
}

static void
test_what_is_handed_on(void)
{
    static const char text[] = "{" RPC "\"id\":2,\"result\":{\"a\":1}}";
    static const char marked[] = BOM "{" RPC "\"id\":2,\"result\":{\"a\":1}}";
    const char *const texts[] = {text, marked};
    for (size_t i = 0; i < 2; i++) {
        ro_message message;
        ro_message_read(ro_slice_str(texts[i]), &message);
        CHECK(message.kind == RO_MESSAGE_ANSWER);
        CHECK(ro_slice_equal(message.text, ro_slice_str(text)));
        CHECK(ro_slice_equal(message.rpc.result, ro_slice_str("{\"a\":1}")));
    }
    CHECK(ro_message_text(ro_slice_str(BOM BOM)).len == 3);
    CHECK(ro_message_text(ro_slice_str("\xef\xbb")).len == 2);
    CHECK(ro_message_text(ro_slice_of(NULL, 0)).len == 0);
}

/* Every beginning of every text, and every byte of it replaced: read within
 * its bounds (under the sanitizer), and never an answer by accident. */
static void
test_any_bytes(void)
{
    for (size_t i = 0; i < SAID; i++) {
        size_t len = strlen(said[i].text);
        for (size_t end = 0; end <= len; end++) {
            char *copy = malloc(end + 1); /* exact, for the sanitizer */
            ro_message message;
            memcpy(copy, said[i].text, end);
            ro_message_read(ro_slice_of(copy, end), &message);
            CHECK(message.kind != RO_MESSAGE_ANSWER || end + 1 >= len);
            if (end != 0) {
                copy[end - 1] = '\0';
                ro_message_read(ro_slice_of(copy, end), &message);
                CHECK(message.kind != RO_MESSAGE_ANSWER);
            }
            free(copy);
        }
    }
}

int
main(void)
{
    test_what_each_text_is();
    test_what_is_handed_on();
    test_any_bytes();
    return check_end();
}
