"""References to variables within a configuration.

DCode resolves `${VAR}` and `${VAR:-default}` in a server's entry. The adapter resolves `${VAR}`
once more in the values of a child's `env`, and leaves what is not set as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

DCODE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
"""Name and default; the default is `None` where there is none."""
ADAPTER = re.compile(r"\$\{([^}]+)\}")
"""Name."""


def without_default(texts: Iterable[str]) -> Iterator[str]:
    """The variables that DCode refuses an entry for when they are not set."""
    for text in texts:
        for name, default in ((match[1], match[2]) for match in DCODE.finditer(text)):
            if default is None:
                yield name


def adapted(text: str, environ: Mapping[str, str]) -> str:
    """A value of a child's `env` as the adapter hands it over."""
    return ADAPTER.sub(lambda match: environ.get(match[1], match[0]), text)
