/* Buffers and, in a build that counts, allocations. */
#include "core/alloc.h"
#include "core/buf.h"

#include "check.h"

#include <stdint.h>

static bool
holds(const ro_buf *buf, const char *text)
{
    return ro_slice_equal(ro_buf_slice(buf), ro_slice_str(text));
}

static void
test_append(void)
{
    ro_buf buf;

    ro_buf_init(&buf, 8);
    CHECK(ro_buf_slice(&buf).len == 0);
    CHECK(ro_buf_append(&buf, NULL, 0) == RO_BUF_OK);
    CHECK(ro_buf_append(&buf, "abc", 3) == RO_BUF_OK);
    CHECK(ro_buf_append_slice(&buf, ro_slice_str("def")) == RO_BUF_OK);
    CHECK(ro_buf_append_char(&buf, 'g') == RO_BUF_OK);
    CHECK(holds(&buf, "abcdefg"));
    CHECK(ro_buf_append(&buf, "hi", 2) == RO_BUF_TOO_LARGE);
    CHECK(holds(&buf, "abcdefg"));
    CHECK(ro_buf_append_char(&buf, 'h') == RO_BUF_OK);
    CHECK(ro_buf_append_char(&buf, 'i') == RO_BUF_TOO_LARGE);
    CHECK(ro_buf_append(&buf, NULL, 0) == RO_BUF_OK);
    CHECK(ro_buf_append(&buf, "x", SIZE_MAX) == RO_BUF_TOO_LARGE);
    CHECK(holds(&buf, "abcdefgh"));
    CHECK(buf.cap <= buf.max);
    ro_buf_free(&buf);
    ro_buf_free(&buf);
    CHECK(ro_buf_append_char(&buf, 'a') == RO_BUF_OK);
    CHECK(holds(&buf, "a"));
    ro_buf_free(&buf);
}

static void
test_zeroed(void)
{
    ro_buf buf = {0};
    size_t len = 7;

    CHECK(ro_buf_append(&buf, "", 0) == RO_BUF_OK);
    CHECK(ro_buf_append_char(&buf, 'a') == RO_BUF_TOO_LARGE);
    CHECK(ro_buf_steal(&buf, &len) == NULL && len == 0);
    ro_buf_clear(&buf);
    ro_buf_free(&buf);
}

/* Every size around every step of growth, byte by byte and at once. */
static void
test_growth(void)
{
    static const size_t maxes[]
        = {1, 255, 256, 257, 511, 513, 1000, 1025, SIZE_MAX, 4096};
    char bytes[3000];

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char)('a' + i % 26);
    }
    for (size_t m = 0; m < sizeof(maxes) / sizeof(*maxes); m++) {
        size_t most = maxes[m] < sizeof(bytes) ? maxes[m] : sizeof(bytes);
        ro_buf one;
        ro_buf whole;
        ro_buf_init(&one, maxes[m]);
        ro_buf_init(&whole, maxes[m]);
        for (size_t i = 0; i < most; i++) {
            CHECK(ro_buf_append_char(&one, bytes[i]) == RO_BUF_OK);
        }
        CHECK(ro_buf_append(&whole, bytes, most) == RO_BUF_OK);
        CHECK(ro_slice_equal(ro_buf_slice(&one), ro_buf_slice(&whole)));
        CHECK(ro_slice_equal(ro_buf_slice(&one), ro_slice_of(bytes, most)));
        CHECK(one.cap <= one.max && whole.cap <= whole.max);
        ro_buf_free(&one);
        ro_buf_free(&whole);
    }
}

static void
test_clear_and_steal(void)
{
    ro_buf buf;
    size_t len = 0;
    char *first = NULL;
    char *stolen = NULL;

    ro_buf_init(&buf, 100);
    CHECK(ro_buf_append(&buf, "abc", 3) == RO_BUF_OK);
    first = buf.data;
    ro_buf_clear(&buf);
    CHECK(buf.len == 0 && buf.data == first);
    CHECK(ro_buf_append(&buf, "xy", 2) == RO_BUF_OK);
    stolen = ro_buf_steal(&buf, &len);
    CHECK(stolen == first && len == 2 && memcmp(stolen, "xy", 2) == 0);
    CHECK(buf.len == 0 && buf.data == NULL && buf.max == 100);
    CHECK(ro_buf_append(&buf, "z", 1) == RO_BUF_OK && holds(&buf, "z"));
    ro_buf_free(&buf);
    CHECK(memcmp(stolen, "xy", 2) == 0);
    ro_free(stolen);
}

static void
test_alloc(void)
{
    char *empty = ro_malloc(0);
    char *zeroed = ro_calloc(4, 4);
    char *copy = ro_memdup("a\0b", 3);
    char *none = ro_memdup(NULL, 0);

    CHECK(empty != NULL && none != NULL && none[0] == '\0');
    CHECK(zeroed != NULL && memcmp(zeroed, (char[16]){0}, 16) == 0);
    CHECK(copy != NULL && memcmp(copy, "a\0b", 4) == 0);
    empty = ro_realloc(empty, 10);
    CHECK(empty != NULL);
    CHECK(ro_memdup("a", SIZE_MAX) == NULL);
    ro_free(empty);
    ro_free(zeroed);
    ro_free(copy);
    ro_free(none);
    ro_free(NULL);
    empty = ro_realloc(NULL, 0);
    CHECK(empty != NULL);
    ro_free(empty);
    zeroed = ro_calloc(0, 8);
    CHECK(zeroed != NULL);
    ro_free(zeroed);
}

#ifdef RO_TEST_ALLOC
static void
test_no_memory(void)
{
    char many[1000] = {0};
    char *block = NULL;
    ro_buf buf;

    ro_buf_init(&buf, 5000);
    ro_alloc_fail_at(1, 0);
    CHECK(ro_buf_append(&buf, "abc", 3) == RO_BUF_NO_MEMORY);
    CHECK(buf.len == 0);
    CHECK(ro_buf_append(&buf, "abc", 3) == RO_BUF_OK);
    ro_alloc_fail_at(1, 1);
    CHECK(ro_buf_append(&buf, many, sizeof(many)) == RO_BUF_NO_MEMORY);
    CHECK(ro_buf_append(&buf, many, sizeof(many)) == RO_BUF_NO_MEMORY);
    CHECK(ro_alloc_count() == 2);
    CHECK(holds(&buf, "abc"));
    ro_alloc_fail_at(2, 0);
    CHECK(ro_alloc_count() == 0);
    block = ro_malloc(1);
    CHECK(block != NULL && ro_calloc(1, 1) == NULL);
    CHECK(ro_alloc_live() == 2);
    ro_alloc_fail_at(1, 0);
    CHECK(ro_realloc(block, 9) == NULL);
    ro_alloc_fail_at(0, 0);
    block = ro_realloc(block, 9);
    CHECK(block != NULL && ro_alloc_live() == 2);
    ro_free(block);
    ro_buf_free(&buf);
    CHECK(ro_alloc_live() == 0);
}
#endif

int
main(void)
{
    test_append();
    test_zeroed();
    test_growth();
    test_clear_and_steal();
    test_alloc();
#ifdef RO_TEST_ALLOC
    test_no_memory();
#endif
    return check_end();
}
