/* Parsing of /proc and whose process is whose, without processes. */
#include "check.h"

#include "core/alloc.h"
#include "guard/descendants.h"
#include "guard/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define SELF 100

static bool
parse(const char *text, ro_proc *out)
{
    return ro_proc_parse_stat(ro_slice_str(text), out);
}

#define REST " 7 8 0 -1 4194304 90 0 0 0 1 2 3 4 20 0 1 0 4711 1000 2 3 4"

static void
test_stat(void)
{
    ro_proc proc;
    CHECK(parse("42 (sh) S 7" REST, &proc));
    CHECK(proc.pid == 42 && proc.ppid == 7 && proc.start == 4711);
    CHECK(!proc.dead && proc.mark == RO_PROC_UNKNOWN);
    /* a name may look like the rest of the line */
    CHECK(parse("42 (a) Z 1 (b) R 9" REST, &proc));
    CHECK(proc.ppid == 9 && !proc.dead);
    CHECK(parse("42 (\n\xff) )) Z 9" REST, &proc) && proc.dead);
    CHECK(parse("42 () X 9" REST, &proc) && proc.dead);
    /* a zombie leader with threads is alive */
    CHECK(parse("42 (x) Z 9 7 8 0 -1 4 90 0 0 0 1 2 3 4 20 0 2 0 4711 1",
                &proc));
    CHECK(!proc.dead);
    CHECK(!parse("", &proc));
    CHECK(!parse("42", &proc));
    CHECK(!parse("42 (sh", &proc));
    CHECK(!parse("42 (sh)", &proc));
    CHECK(!parse("42 (sh) S", &proc));
    CHECK(!parse("x (sh) S 7" REST, &proc));
    CHECK(!parse("42 (sh) S 7 7 8 0 -1 4 90 0 0 0 1 2 3 4 20 0 1 0", &proc));
    /* cut in the number that counts */
    CHECK(
        !parse("42 (sh) S 7 7 8 0 -1 4 90 0 0 0 1 2 3 4 20 0 1 0 47", &proc));
}

static void
test_status(void)
{
    ro_proc_owner owner;
    const char *text = "Name:\tsh\\nUid:\t9\nUid:\t1000\t0\t0\t0\n"
                       "Gid:\t5\nNSpid:\t42\t7\t1\nNSpgid:\t1\n";
    CHECK(ro_proc_parse_status(ro_slice_str(text), &owner));
    CHECK(owner.uid == 1000 && owner.depth == 3 && owner.pid == 1);
    text = "Name:\tsh\nUid:\t0\t0\t0\t0\nNSpid:\t42\n";
    CHECK(ro_proc_parse_status(ro_slice_str(text), &owner));
    CHECK(owner.uid == 0 && owner.depth == 1 && owner.pid == 42);
    text = "Name:\tsh\nUid:\t3\t0\t0\t0\n";
    CHECK(ro_proc_parse_status(ro_slice_str(text), &owner));
    CHECK(owner.uid == 3 && owner.depth == 0 && owner.pid == 0);
    CHECK(!ro_proc_parse_status(ro_slice_str("Name:\tx\n"), &owner));
    CHECK(!ro_proc_parse_status(ro_slice_str("Uid:\t\n"), &owner));
    CHECK(!ro_proc_parse_status(ro_slice_str("Uid:\t12"), &owner));
    CHECK(!ro_proc_parse_status(ro_slice_str(""), &owner));
}

static void
add(ro_procs *procs, pid_t pid, pid_t ppid, uint64_t start)
{
    ro_proc proc = {.pid = pid, .ppid = ppid, .start = start};
    CHECK(ro_procs_add(procs, &proc));
}

static ro_proc_mark
mark_of(const ro_procs *procs, pid_t pid)
{
    const ro_proc *proc = ro_procs_find(procs, pid);
    return proc == NULL ? RO_PROC_UNKNOWN : proc->mark;
}

static void
test_family(void)
{
    ro_procs procs;
    ro_procs spared = {0};
    ro_lineage lineage = {.self = SELF, .spared = &spared};
    CHECK(ro_procs_init(&procs, 2));
    add(&procs, 1, 0, 1);
    add(&procs, SELF, 1, 50);
    add(&procs, 101, SELF, 60); /* child */
    add(&procs, 102, 101, 61);  /* grandchild */
    add(&procs, 90, 102, 70);   /* great-grandchild, pids wrapped */
    add(&procs, 103, 1, 62);    /* someone's */
    add(&procs, 104, 103, 63);
    add(&procs, 2, 0, 1);
    ro_procs_sort(&procs);
    CHECK(!ro_descendants_mark(&procs, &lineage));
    CHECK(mark_of(&procs, 101) == RO_PROC_OURS);
    CHECK(mark_of(&procs, 102) == RO_PROC_OURS);
    CHECK(mark_of(&procs, 90) == RO_PROC_OURS);
    CHECK(mark_of(&procs, SELF) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 1) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 2) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 103) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 104) == RO_PROC_OTHER);
    CHECK(ro_procs_find(&procs, 105) == NULL);
    CHECK(ro_procs_find(&procs, 0) == NULL);
    ro_procs_free(&procs);
    ro_procs_free(&procs);
}

static void
test_spared(void)
{
    ro_procs procs = {0};
    ro_procs spared = {0};
    ro_lineage lineage = {.self = SELF, .spared = &spared};
    add(&spared, 101, SELF, 40);
    add(&spared, 103, 101, 41);
    add(&spared, 105, SELF, 42);
    add(&procs, SELF, 1, 10);
    add(&procs, 101, SELF, 40); /* existed */
    add(&procs, 102, 101, 60);  /* its child since */
    add(&procs, 103, SELF, 41); /* existed below it, orphaned to us */
    add(&procs, 104, 103, 61);  /* its child since */
    add(&procs, 105, SELF, 70); /* the pid of one that existed, again */
    add(&procs, 106, 105, 71);
    CHECK(!ro_descendants_mark(&procs, &lineage));
    CHECK(mark_of(&procs, 101) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 102) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 103) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 104) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 105) == RO_PROC_OURS);
    CHECK(mark_of(&procs, 106) == RO_PROC_OURS);
    /* the list at start was cut short */
    spared.len = 0;
    lineage.spare_before = 61;
    CHECK(!ro_descendants_mark(&procs, &lineage));
    CHECK(mark_of(&procs, 102) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 104) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 105) == RO_PROC_OURS);
    lineage.spare_before = UINT64_MAX;
    CHECK(!ro_descendants_mark(&procs, &lineage));
    CHECK(mark_of(&procs, 105) == RO_PROC_OTHER);
    ro_procs_free(&procs);
    ro_procs_free(&spared);
}

/* A list that fills its block: a sanitizer sees one more than there is. Marks
 * of a call before do not count. */
static void
test_exact(void)
{
    ro_procs procs;
    ro_procs spared = {0};
    ro_procs before = {0};
    ro_lineage lineage = {.self = SELF, .spared = &spared};
    CHECK(ro_procs_init(&procs, 2));
    add(&procs, 101, SELF, 60);
    add(&procs, 102, SELF, 61);
    CHECK(procs.len == procs.cap);
    CHECK(!ro_descendants_mark(&procs, &lineage));
    CHECK(ro_descendants_fresh(&procs, &before) == 2);
    lineage.spare_before = 61; /* older ones, not those of the same tick */
    CHECK(!ro_descendants_mark(&procs, &lineage));
    CHECK(mark_of(&procs, 101) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 102) == RO_PROC_OURS);
    CHECK(ro_descendants_fresh(&procs, &before) == 1);
    ro_procs_free(&procs);
}

/* Snapshots are not taken at one instant. */
static void
test_torn(void)
{
    ro_procs procs = {0};
    ro_procs spared = {0};
    ro_lineage lineage = {.self = SELF, .spared = &spared};
    add(&procs, SELF, 1, 10);
    add(&procs, 102, 101, 60); /* its parent went meanwhile */
    add(&procs, 103, 102, 61);
    CHECK(ro_descendants_mark(&procs, &lineage));
    CHECK(mark_of(&procs, 102) == RO_PROC_OTHER);
    CHECK(mark_of(&procs, 103) == RO_PROC_OTHER);
    procs.len = 1;
    add(&procs, 101, SELF, 70); /* the parent's pid is used again */
    add(&procs, 102, 101, 60);
    CHECK(ro_descendants_mark(&procs, &lineage));
    CHECK(mark_of(&procs, 101) == RO_PROC_OURS);
    CHECK(mark_of(&procs, 102) == RO_PROC_OTHER);
    procs.len = 1;
    add(&procs, 101, 102, 60); /* a ring ends */
    add(&procs, 102, 101, 60);
    CHECK(ro_descendants_mark(&procs, &lineage));
    CHECK(mark_of(&procs, 101) == RO_PROC_OTHER);
    ro_procs_free(&procs);
}

static void
test_long_chain(void)
{
    enum { LENGTH = 20000 };
    ro_procs procs = {0};
    ro_procs spared = {0};
    ro_lineage lineage = {.self = SELF, .spared = &spared};
    /* each child has the lower pid: nothing is known on the way up */
    for (int i = 0; i < LENGTH; i++) {
        int ppid = i == LENGTH - 1 ? SELF : 1000 + i + 1;
        add(&procs, 1000 + i, ppid, 60);
    }
    CHECK(!ro_descendants_mark(&procs, &lineage));
    CHECK(mark_of(&procs, 1000) == RO_PROC_OURS);
    CHECK(mark_of(&procs, 1000 + LENGTH / 2) == RO_PROC_OURS);
    ro_procs_free(&procs);
}

static void
test_fresh(void)
{
    ro_procs procs = {0};
    ro_procs before = {0};
    ro_procs spared = {0};
    ro_lineage lineage = {.self = SELF, .spared = &spared};
    add(&procs, 101, SELF, 60);
    add(&procs, 102, SELF, 61);
    procs.list[1].dead = true;
    add(&procs, 103, 1, 62);
    (void)ro_descendants_mark(&procs, &lineage);
    CHECK(ro_descendants_fresh(&procs, &before) == 1);
    add(&before, 101, SELF, 59);
    CHECK(ro_descendants_fresh(&procs, &before) == 1);
    before.list[0].start = 60;
    CHECK(ro_descendants_fresh(&procs, &before) == 0);
    ro_procs_free(&procs);
    ro_procs_free(&before);
}

static void
test_live(void)
{
    ro_procs procs;
    ro_proc proc;
    ro_proc_owner owner;
    int fd = open("/proc", O_RDONLY | O_DIRECTORY);
    CHECK(fd >= 0);
    CHECK(ro_procs_init(&procs, 1));
    for (int i = 0; i < 2; i++) {
        CHECK(ro_procs_read(&procs, fd) && !procs.cut);
        const ro_proc *self = ro_procs_find(&procs, getpid());
        CHECK(self != NULL && self->ppid == getppid() && !self->dead);
        for (size_t j = 1; j < procs.len; j++) {
            CHECK(procs.list[j - 1].pid < procs.list[j].pid);
        }
    }
    CHECK(ro_proc_look(fd, getpid(), &proc) && proc.pid == getpid());
    CHECK(ro_procs_has(&procs, &proc));
    proc.start++;
    CHECK(!ro_procs_has(&procs, &proc));
    CHECK(ro_proc_look_owner(fd, "self", &owner) && owner.uid == getuid());
    CHECK(owner.depth >= 1 && owner.pid == getpid());
    CHECK(!ro_proc_look(fd, 0, &proc));

    ro_fault_set(RO_SYS_GETDENTS64, 1, EINTR, false);
    CHECK(ro_procs_read(&procs, fd) && !procs.cut);
    ro_fault_set(RO_SYS_GETDENTS64, 1, EIO, false);
    CHECK(!ro_procs_read(&procs, fd));
    size_t batches = ro_fault_count(RO_SYS_GETDENTS64);
    CHECK(batches == 1);
    ro_fault_set(RO_SYS_GETDENTS64, 0, 0, false);
    CHECK(ro_procs_read(&procs, fd));
    batches = ro_fault_count(RO_SYS_GETDENTS64);
    ro_fault_set(RO_SYS_GETDENTS64, batches - 1, EIO, true);
    CHECK(ro_procs_read(&procs, fd) && procs.cut);
    ro_fault_set(RO_SYS_LSEEK, 1, EIO, false);
    CHECK(!ro_procs_read(&procs, fd));
    ro_fault_set(RO_SYS_OPENAT, 2, EMFILE, false);
    CHECK(ro_procs_read(&procs, fd) && procs.cut);
    ro_fault_set(RO_SYS_OPENAT, 2, ENOENT, false);
    CHECK(ro_procs_read(&procs, fd) && !procs.cut);
    ro_fault_set(RO_SYS_READ, 2, ESRCH, false);
    CHECK(ro_procs_read(&procs, fd) && !procs.cut);
    ro_fault_set(RO_SYS_COUNT, 0, 0, false);
    ro_procs_free(&procs);

    CHECK(ro_procs_init(&procs, 1));
    ro_alloc_fail_at(1, 1);
    CHECK(ro_procs_read(&procs, fd) && procs.cut && procs.len == 1);
    ro_alloc_fail_at(1, 0);
    ro_procs empty;
    CHECK(!ro_procs_init(&empty, 8));
    ro_alloc_fail_at(0, 0);
    ro_procs_free(&procs);
    CHECK(close(fd) == 0);
}

int
main(void)
{
    test_stat();
    test_status();
    test_family();
    test_spared();
    test_exact();
    test_torn();
    test_long_chain();
    test_fresh();
    test_live();
    CHECK(ro_alloc_live() == 0);
    return check_end();
}
