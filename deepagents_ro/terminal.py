"""Writing for people: colour and width of a terminal, and neither anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 4096
"""Columns when the output is no terminal: its reader gets one line a row, however long."""


def console(stream: TextIO, *, terminal: bool, width: int | None) -> Console:
    """A console of `width` columns (None: the terminal's), with colour if `terminal`."""
    from rich.console import Console

    return Console(
        file=stream,
        width=width,
        force_terminal=terminal,
        no_color=not terminal or None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def console_of(stream: TextIO) -> Console:
    """A console with colour and the terminal's width on a terminal, and neither elsewhere."""
    terminal = stream.isatty()
    return console(stream, terminal=terminal, width=None if terminal else PIPE_WIDTH)


def visible(text: str) -> str:
    """`text` with control characters spelled out, so that a name cannot steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
