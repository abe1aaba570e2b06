#include "guard/privacy.h"

#include <sys/prctl.h>

#include "guard/sys.h"

bool
ro_privacy_close(ro_privacy *privacy)
{
    struct rlimit core;
    *privacy = (ro_privacy){0};
    if (getrlimit(RLIMIT_CORE, &core) == 0) {
        privacy->core_before = core.rlim_cur;
        core.rlim_cur = 0;
        privacy->limited = setrlimit(RLIMIT_CORE, &core) == 0;
    }
    bool was_open = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
    if (RO_SYS(PRCTL, prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), -1) != 0) {
        return false;
    }
    privacy->closed = was_open;
    return privacy->limited;
}

void
ro_privacy_open(ro_privacy *privacy)
{
    struct rlimit core;
    if (privacy->closed) {
        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        privacy->closed = false;
    }
    if (privacy->limited && getrlimit(RLIMIT_CORE, &core) == 0) {
        core.rlim_cur = privacy->core_before;
        (void)setrlimit(RLIMIT_CORE, &core);
        privacy->limited = false;
    }
}
