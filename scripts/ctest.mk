# One variant of the C tests: make -f scripts/ctest.mk VARIANT=plain|asan|tsan
# Every tests/c/test_*.c becomes a program, linked with all of core, guard and net.

VARIANT := plain
OUT := build/ctest/$(VARIANT)
PKG_CONFIG ?= pkg-config

plain_FLAGS := -O2
asan_FLAGS := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
tsan_FLAGS := -O1 -fsanitize=thread -fno-omit-frame-pointer

CFLAGS := -std=c11 -D_GNU_SOURCE -g -Wall -Wextra -Wconversion -Wstrict-prototypes -Werror \
    -fvisibility=hidden -pthread -DRO_TEST_ALLOC -DRO_TEST_FAULT $($(VARIANT)_FLAGS)
CPPFLAGS := -Icsrc -Itests/c $(shell $(PKG_CONFIG) --cflags libcurl libcjson)
LDLIBS := $(shell $(PKG_CONFIG) --libs libcurl libcjson) -lm

SOURCES := $(wildcard csrc/core/*.c csrc/guard/*.c csrc/net/*.c)
TESTS := $(wildcard tests/c/test_*.c)
OBJECTS := $(SOURCES:%.c=$(OUT)/%.o)
PROGRAMS := $(TESTS:tests/c/%.c=$(OUT)/%)

.PHONY: all
.SECONDARY:
all: $(PROGRAMS)

$(OUT)/%.o: %.c scripts/ctest.mk
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c $< -o $@

$(OUT)/%: $(OUT)/tests/c/%.o $(OBJECTS)
	@$(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
