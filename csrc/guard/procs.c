#include "guard/procs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/alloc.h"
#include "guard/sys.h"

bool
ro_procs_init(ro_procs *procs, size_t cap)
{
    *procs = (ro_procs){0};
    procs->list = ro_calloc(cap, sizeof(ro_proc));
    if (procs->list == NULL) {
        return false;
    }
    procs->cap = cap;
    return true;
}

void
ro_procs_free(ro_procs *procs)
{
    ro_free(procs->list);
    *procs = (ro_procs){0};
}

bool
ro_procs_add(ro_procs *procs, const ro_proc *proc)
{
    if (procs->len == procs->cap) {
        size_t cap = procs->cap * 2 + 16;
        ro_proc *list = ro_realloc(procs->list, cap * sizeof(ro_proc));
        if (list == NULL) {
            return false;
        }
        procs->list = list;
        procs->cap = cap;
    }
    procs->list[procs->len++] = *proc;
    return true;
}

/* /proc lists by pid, so there is next to nothing to move. */
void
ro_procs_sort(ro_procs *procs)
{
    for (size_t i = 1; i < procs->len; i++) {
        ro_proc proc = procs->list[i];
        size_t j = i;
        while (j > 0 && procs->list[j - 1].pid > proc.pid) {
            procs->list[j] = procs->list[j - 1];
            j--;
        }
        procs->list[j] = proc;
    }
}

ro_proc *
ro_procs_find(const ro_procs *procs, pid_t pid)
{
    size_t low = 0;
    size_t high = procs->len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (procs->list[middle].pid < pid) {
            low = middle + 1;
        }
        else {
            high = middle;
        }
    }
    if (low == procs->len || procs->list[low].pid != pid) {
        return NULL;
    }
    return &procs->list[low];
}

bool
ro_procs_has(const ro_procs *procs, const ro_proc *proc)
{
    const ro_proc *found = ro_procs_find(procs, proc->pid);
    return found != NULL && found->start == proc->start;
}

static bool
take_number(const char **at, const char *end, uint64_t *out)
{
    const char *p = *at;
    uint64_t value = 0;
    while (p < end && *p == ' ') {
        p++;
    }
    if (p < end && *p == '-') { /* a priority or tty: of no interest */
        p++;
    }
    const char *first = p;
    while (p < end && *p >= '0' && *p <= '9') {
        value = value * 10 + (uint64_t)(*p - '0');
        p++;
    }
    if (p == first) {
        return false;
    }
    *at = p;
    *out = value;
    return true;
}

bool
ro_proc_parse_stat(ro_slice stat, ro_proc *out)
{
    const char *at = stat.ptr;
    const char *end = stat.ptr + stat.len;
    uint64_t pid;
    uint64_t field[23] = {0};
    if (stat.len == 0 || !take_number(&at, end, &pid)) {
        return false;
    }
    /* The last one: a command's name may hold ") " itself. */
    const char *close = memrchr(at, ')', (size_t)(end - at));
    if (close == NULL || end - close < 3 || close[1] != ' ') {
        return false;
    }
    char state = close[2];
    at = close + 3;
    for (int i = 4; i <= 22; i++) {
        if (!take_number(&at, end, &field[i])) {
            return false;
        }
    }
    /* 22 must be whole: the line may have been cut */
    if (at == end) {
        return false;
    }
    *out = (ro_proc){
        .pid = (pid_t)pid,
        .ppid = (pid_t)field[4],
        .start = field[22],
        /* A zombie leader with threads left runs on and can fork. */
        .dead = (state == 'Z' || state == 'X') && field[20] <= 1,
    };
    return true;
}

static bool
find_line(ro_slice text, const char *name, ro_slice *out)
{
    size_t len = strlen(name);
    const char *at = text.ptr;
    const char *end = text.ptr + text.len;
    while (at < end) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        if (eol == NULL) {
            return false;
        }
        if ((size_t)(eol - at) > len && memcmp(at, name, len) == 0) {
            *out = ro_slice_of(at + len, (size_t)(eol - at) - len);
            return true;
        }
        at = eol + 1;
    }
    return false;
}

static const char *
skip_tabs(const char *at, const char *end)
{
    while (at < end && (*at == '\t' || *at == ' ')) {
        at++;
    }
    return at;
}

bool
ro_proc_parse_status(ro_slice status, ro_proc_owner *out)
{
    ro_slice line;
    uint64_t value;
    /* the first line, Name, has its line breaks escaped by the kernel */
    if (status.len == 0 || !find_line(status, "Uid:", &line)) {
        return false;
    }
    const char *end = line.ptr + line.len;
    const char *at = skip_tabs(line.ptr, end);
    if (!take_number(&at, end, &value)) {
        return false;
    }
    *out = (ro_proc_owner){.uid = (uid_t)value};
    if (find_line(status, "NSpid:", &line)) {
        end = line.ptr + line.len;
        at = skip_tabs(line.ptr, end);
        while (take_number(&at, end, &value)) {
            out->depth++;
            out->pid = (pid_t)value;
            at = skip_tabs(at, end);
        }
    }
    return true;
}

ssize_t
ro_proc_read(int proc_fd, const char *pid, const char *name, char *buffer,
             size_t size)
{
    char path[64];
    int len = snprintf(path, sizeof(path), "%s/%s", pid, name);
    if (len < 0 || (size_t)len >= sizeof(path)) {
        return -1;
    }
    int fd;
    do {
        fd = RO_SYS(OPENAT, openat(proc_fd, path, O_RDONLY | O_CLOEXEC), -1);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return -1;
    }
    size_t done = 0;
    while (done < size) {
        ssize_t n = RO_SYS(READ, read(fd, buffer + done, size - done), -1);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            int failed = errno;
            (void)close(fd);
            errno = failed;
            return -1;
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    (void)close(fd);
    return (ssize_t)done;
}

/* Long enough: a stat line is under 400 bytes, a status that has what is
 * looked for in its first 2,000 (groups come behind Uid, before NSpid). */
#define STAT_BYTES 1024
#define STATUS_BYTES 8192

/* 0, or an errno that says why there is nothing in *out. */
static int
look(int proc_fd, const char *pid, ro_proc *out)
{
    char stat[STAT_BYTES];
    ssize_t len = ro_proc_read(proc_fd, pid, "stat", stat, sizeof(stat));
    if (len < 0) {
        return errno;
    }
    return ro_proc_parse_stat(ro_slice_of(stat, (size_t)len), out) ? 0 : EIO;
}

bool
ro_proc_look(int proc_fd, pid_t pid, ro_proc *out)
{
    char name[24];
    (void)snprintf(name, sizeof(name), "%ld", (long)pid);
    return look(proc_fd, name, out) == 0;
}

bool
ro_proc_look_owner(int proc_fd, const char *pid, ro_proc_owner *out)
{
    char status[STATUS_BYTES];
    ssize_t len = ro_proc_read(proc_fd, pid, "status", status, sizeof(status));
    return len > 0
           && ro_proc_parse_status(ro_slice_of(status, (size_t)len), out);
}

struct dirent_head {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
};
#define DIRENT_NAME_AT 19 /* bytes: the head without its padding */

static void
read_entry(ro_procs *procs, int proc_fd, const char *name)
{
    ro_proc proc;
    if (name[0] < '1' || name[0] > '9') {
        return;
    }
    int failed = look(proc_fd, name, &proc);
    if (failed == ENOENT || failed == ESRCH) {
        return; /* gone again: no loss */
    }
    if (failed != 0 || !ro_procs_add(procs, &proc)) {
        procs->cut = true;
    }
}

bool
ro_procs_read(ro_procs *procs, int proc_fd)
{
    /* A few names at a time. A process that forks and leaves as fast as it
     * can is looked at microseconds after it was listed, not milliseconds
     * after, when it would be gone. */
    _Alignas(8) char buffer[128];
    procs->len = 0;
    procs->cut = false;
    if (RO_SYS(LSEEK, lseek(proc_fd, 0, SEEK_SET), -1) < 0) {
        return false;
    }
    for (;;) {
        long got = RO_SYS(
            GETDENTS64,
            syscall(SYS_getdents64, proc_fd, buffer, sizeof(buffer)), -1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && procs->len == 0) {
            return false;
        }
        if (got <= 0) {
            procs->cut = procs->cut || got < 0;
            break;
        }
        for (long at = 0; at < got;) {
            struct dirent_head head;
            memcpy(&head, buffer + at, DIRENT_NAME_AT);
            read_entry(procs, proc_fd, buffer + at + DIRENT_NAME_AT);
            at += head.reclen;
        }
    }
    ro_procs_sort(procs);
    return true;
}
