"""The distribution of latencies as one self-contained SVG: no script, no font, no link."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .latency import PERCENTILES, Sample

WIDTH = 760
ROW = 96
LEFT, RIGHT, TOP = 24, 24, 64
BINS = 60
MARKS = {50: "#1a7f37", 95: "#9a6700", 99: "#cf222e"}


def svg(samples: Sequence[Sample], title: str = "Gateway tools: latency") -> str:
    """One histogram per tool over a common axis in milliseconds, percentiles marked."""
    height = TOP + ROW * max(1, len(samples)) + 40
    longest = max((max(sample.times_ms) for sample in samples if sample.times_ms), default=1.0)
    limit = nice_limit(longest)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="16" fill="#1f2328">{escape(title)}</text>',
        _legend(),
    ]
    for number, sample in enumerate(samples):
        parts += _row(sample, TOP + number * ROW, limit)
    parts += _axis(TOP + ROW * max(1, len(samples)), limit)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def nice_limit(longest: float) -> float:
    """The end of the axis: 1, 2 or 5 times a power of ten, at least `longest`."""
    step = 0.01
    while True:
        for factor in (1, 2, 5):
            if step * factor >= longest:
                return step * factor
        step *= 10


def _legend() -> str:
    marks = "   ".join(f'<tspan fill="{MARKS[p]}">p{p}</tspan>' for p in PERCENTILES)
    return f'<text x="{LEFT}" y="44" fill="#59636e" xml:space="preserve">{marks}</text>'


def _row(sample: Sample, top: float, limit: float) -> list[str]:
    counts = [0] * BINS
    for time in sample.times_ms:
        counts[min(BINS - 1, int(time / limit * BINS))] += 1
    tallest = max(counts) or 1
    base, full = top + ROW - 20, ROW - 48
    width = (WIDTH - LEFT - RIGHT) / BINS
    failed = f", {sample.failures} failed" if sample.failures else ""
    figures = ", ".join(
        f"p{percent} {value:.1f} ms"
        for percent in PERCENTILES
        if (value := sample.percentile(percent)) is not None
    )
    label = f"{sample.tool}: {len(sample.times_ms)} calls{failed}"
    lines = [
        f'<text x="{LEFT}" y="{top + 18:.1f}" fill="#1f2328">{escape(label)}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{top + 18:.1f}" fill="#59636e" text-anchor="end">'
        f"{escape(figures)}</text>",
    ]
    for number, count in enumerate(counts):
        if count:
            tall = max(1.0, count / tallest * full)
            lines.append(
                f'<rect x="{LEFT + number * width:.1f}" y="{base - tall:.1f}" '
                f'width="{width - 1:.1f}" height="{tall:.1f}" fill="#8c959f"/>'
            )
    for percent, colour in MARKS.items():
        value = sample.percentile(percent)
        if value is not None:
            x = LEFT + value / limit * (WIDTH - LEFT - RIGHT)
            lines.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{base - full:.1f}" y2="{base:.1f}" '
                f'stroke="{colour}" stroke-width="1.5"/>'
            )
    return lines


def _axis(y: float, limit: float) -> list[str]:
    lines = [f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#59636e"/>']
    for tick in range(6):
        x = LEFT + tick / 5 * (WIDTH - LEFT - RIGHT)
        lines.append(
            f'<text x="{x:.1f}" y="{y + 18:.1f}" fill="#59636e" text-anchor="middle">'
            f"{limit * tick / 5:g}{' ms' if tick == 5 else ''}</text>"
        )
    return lines
