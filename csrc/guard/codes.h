/* Why a guard does not start. */
#ifndef RO_GUARD_CODES_H
#define RO_GUARD_CODES_H

/* Each: id, word. */
#define RO_GUARD_CODES(X)                                                     \
    X(OK, "ok")                                                               \
    /* there is one, or was before a fork */                                  \
    X(TWICE, "twice")                                                         \
    /* a time below 0 or a missing envelope */                                \
    X(BAD_OPTION, "bad_option")                                               \
    X(NO_MEMORY, "no_memory")                                                 \
    /* 0 to 2 not settled, no copy, no eventfd */                             \
    X(NO_DESCRIPTOR, "no_descriptor")                                         \
    X(NO_SIGNAL, "no_signal")                                                 \
    X(NO_THREAD, "no_thread")

#define X(id, word) RO_GUARD_##id,
typedef enum ro_guard_code { RO_GUARD_CODES(X) } ro_guard_code;
#undef X

/* Static. */
const char *ro_guard_code_name(ro_guard_code code);

#endif
