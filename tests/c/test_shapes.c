/* The table of credential shapes against its samples. */
#include "core/shapes.h"

#include "check.h"

#define MAX_LINE 4096
#define MAX_SPANS 16

typedef struct spans {
    size_t first[MAX_SPANS];
    size_t end[MAX_SPANS];
    size_t count;
} spans;

static void
collect(void *context, size_t first, size_t end)
{
    spans *found = context;
    if (found->count < MAX_SPANS) {
        found->first[found->count] = first;
        found->end[found->count] = end;
    }
    found->count++;
}

static spans
search(ro_slice text)
{
    spans found = {.count = 0};
    ro_shapes_search(text, collect, &found);
    return found;
}

/* A sample line without its marks and line break escapes. */
static size_t
read_sample(const char *line, size_t len, char *text, spans *expected)
{
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        if (i + 1 < len && line[i] == '[' && line[i + 1] == '[') {
            expected->first[expected->count] = used;
            i++;
        }
        else if (i + 1 < len && line[i] == ']' && line[i + 1] == ']') {
            expected->end[expected->count++] = used;
            i++;
        }
        else if (i + 1 < len && line[i] == '\\'
                 && strchr("nrt\\", line[i + 1]) != NULL) {
            char c = line[++i];
            text[used++] = c == 'n'   ? '\n'
                           : c == 'r' ? '\r'
                           : c == 't' ? '\t'
                                      : '\\';
        }
        else {
            text[used++] = line[i];
        }
    }
    return used;
}

static bool
same_spans(const spans *a, const spans *b)
{
    if (a->count != b->count || a->count > MAX_SPANS) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (a->first[i] != b->first[i] || a->end[i] != b->end[i]) {
            return false;
        }
    }
    return true;
}

/* Checks every line of the file; notes which prefixes it has shown. */
static void
check_file(const char *path, bool accept, bool *shown)
{
    FILE *file = fopen(path, "r");
    char line[MAX_LINE];
    char text[MAX_LINE];
    unsigned lines = 0;

    CHECK(file != NULL);
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        spans expected = {.count = 0};
        size_t len = strcspn(line, "\n");
        ro_slice sample;
        spans found;

        if (len == 0 || line[0] == '#') {
            continue;
        }
        lines++;
        sample = ro_slice_of(text, read_sample(line, len, text, &expected));
        found = search(sample);
        CHECK((expected.count > 0) == accept);
        CHECK(same_spans(&found, &expected));
        if (!same_spans(&found, &expected)) {
            fprintf(stderr, "  %s: %s", path, line);
        }
        for (size_t i = 0; accept && ro_shapes_prefix(i) != NULL; i++) {
            shown[i] = shown[i] || strstr(line, ro_shapes_prefix(i)) != NULL;
        }
    }
    fclose(file);
    CHECK(lines > 40);
}

/* 16 characters behind each prefix are a credential, 15 are none. */
static void
check_every_prefix(const bool *shown)
{
    for (size_t i = 0; ro_shapes_prefix(i) != NULL; i++) {
        const char *prefix = ro_shapes_prefix(i);
        char text[128];
        size_t len;
        spans found;

        CHECK(shown[i]);
        if (prefix[0] == '-') {
            continue; /* no prefix in that sense */
        }
        len = (size_t)snprintf(text, sizeof(text), "%s%s%s", prefix,
                               prefix[0] == 'b' ? " " : "",
                               "7777777777777777");
        found = search(ro_slice_of(text, len));
        CHECK(found.count == 1 && found.end[0] == len);
        CHECK(search(ro_slice_of(text, len - 1)).count == 0);
        memmove(text + 1, text, len);
        text[0] = '_';
        CHECK(search(ro_slice_of(text, len + 1)).count == 0);
        text[0] = '\0';
        CHECK(search(ro_slice_of(text, len + 1)).count == 1);
    }
}

/* bytes: a text for which quadratic work is plain to see */
#define LINEAR_LEN ((size_t)64 * 1024)

/* characters that a search of a text of len bytes looks at, which repeats
 * the pattern */
static size_t
looks_of_repeated(const char *pattern, size_t len)
{
    size_t part = strlen(pattern);
    char *text = malloc(len);
    spans found = {.count = 0};
    size_t before = ro_shapes_looks();

    if (text == NULL) {
        abort();
    }
    for (size_t i = 0; i < len; i++) {
        text[i] = pattern[i % part];
    }
    ro_shapes_search(ro_slice_of(text, len), collect, &found);
    free(text);
    return ro_shapes_looks() - before;
}

/* Eight times the bytes: linear work is eight times as much, and quadratic
 * work 64 times. */
static bool
is_linear(const char *pattern)
{
    size_t part = looks_of_repeated(pattern, LINEAR_LEN / 8);
    size_t whole = looks_of_repeated(pattern, LINEAR_LEN);
    return part > 0 && whole > 0 && whole < 16 * part;
}

static void
check_linear(void)
{
    static const char *const patterns[] = {
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY----- -----END CERTIFICATE-----",
        "-----BEGIN PRIVATE KEY----------END PRIVATE KEY-----",
        "-----BEGIN A A A A A A A A A A A A A A ",
        "----------------",
        "sk-a-",
        " sk-a",
        "bearer ",
        "Basic\t\t\t\t",
        "s g x p n ",
        "sk-a/sk-b/",
        "-----END ",
    };
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        CHECK(is_linear(patterns[i]));
    }
    CHECK(search(ro_slice_of(NULL, 0)).count == 0);
}

int
main(void)
{
    bool shown[256] = {false};
    check_file("tests/data/shapes/accept.txt", true, shown);
    check_file("tests/data/shapes/reject.txt", false, shown);
    check_every_prefix(shown);
    check_linear();
    return check_end();
}
