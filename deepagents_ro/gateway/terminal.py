"""Writing for people: colour and width of a terminal, and neither anywhere else."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console

PIPE_WIDTH = 160
"""Columns when the output is no terminal."""


def console(stream: TextIO) -> Console:
    """A console with colour and the terminal's width on a terminal, and neither elsewhere."""
    terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=terminal,
        no_color=not terminal or None,
        width=None if terminal else PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def visible(text: str) -> str:
    """`text` with control characters spelled out, so that a name cannot steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
