"""How many examples a property test takes: few in `make test`, all of them in `make check`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from servers.warm import CHECK_VARIABLE

# `make test` takes one example in so many.
SHARE = 8


def examples(count: int) -> settings:
    """Settings with `count` examples in `make check`, an eighth of them in `make test`.

    No example has a time limit: on a busy machine it would be a verdict about the machine.
    """
    shown = count if CHECK_VARIABLE in os.environ else max(10, count // SHARE)
    return settings(
        max_examples=shown,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
