# One variant of the C tests: make -f scripts/ctest.mk VARIANT=plain|asan|tsan|cov
# Every tests/c/test_*.c becomes a program, linked with all of core, guard and net.

VARIANT := plain
OUT := build/ctest/$(VARIANT)
PKG_CONFIG ?= pkg-config

# What setup.py builds with, as far as the compiler takes it; sanitizers bring their own.
takes = $(shell echo 'int probe;' | $(CC) -O2 -Werror $(1) -include string.h -x c -c -o /dev/null - 2>/dev/null && echo '$(1)')
HARDENING := $(call takes,-fstack-protector-strong) $(call takes,-fstack-clash-protection) \
    $(or $(call takes,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2) \
    $(or $(call takes,-fcf-protection=full),$(call takes,-mbranch-protection=standard))

plain_FLAGS := -O2 $(HARDENING)
asan_FLAGS := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
cov_FLAGS := -O0 --coverage -fprofile-update=atomic -DRO_TEST_COUNTS
# A guarded process ends by _exit, which writes no counts by itself.
cov_LDFLAGS := -Wl,--wrap=_exit -Wl,--wrap=raise
tsan_FLAGS := -O1 -fsanitize=thread -fno-omit-frame-pointer

CFLAGS := -std=c11 -D_GNU_SOURCE -g -Wall -Wextra -Wconversion -Wstrict-prototypes -Werror \
    -fvisibility=hidden -pthread -DRO_TEST_ALLOC -DRO_TEST_FAULT $($(VARIANT)_FLAGS)
CPPFLAGS := -Icsrc -Itests/c $(shell $(PKG_CONFIG) --cflags libcurl libcjson)
LDLIBS := $(shell $(PKG_CONFIG) --libs libcurl libcjson) -lm

SOURCES := $(wildcard csrc/core/*.c csrc/guard/*.c csrc/mcp/*.c csrc/net/*.c)
TESTS := $(wildcard tests/c/test_*.c)
OBJECTS := $(SOURCES:%.c=$(OUT)/%.o) $(if $(filter cov,$(VARIANT)),$(OUT)/tests/c/counts.o)
PROGRAMS := $(TESTS:tests/c/%.c=$(OUT)/%)

.PHONY: all
.SECONDARY:
all: $(PROGRAMS)

$(OUT)/%.o: %.c scripts/ctest.mk
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c $< -o $@

$(OUT)/%: $(OUT)/tests/c/%.o $(OBJECTS)
	@$(CC) $(CFLAGS) $($(VARIANT)_LDFLAGS) $^ $(LDLIBS) -o $@

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
