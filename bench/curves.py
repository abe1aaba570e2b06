"""Lines over one axis each, as a picture in one self-contained SVG file."""

from __future__ import annotations

import math
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 56, 52
TICKS = 6
COLOURS = ("#0b7285", "#c2410c", "#5f3dc4", "#2b8a3e", "#868e96", "#a61e4d")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}"
    ".grid{stroke:#ddd}.axis{stroke:#888}.line{fill:none;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}"
    "svg{background:#16181c}}"
)

Points = list[tuple[float, float]]


def step_for(top: float) -> float:
    """A round distance of ticks: 1, 2, 2.5 or 5 times a power of ten."""
    rough = top / TICKS
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= rough)


def ticks_to(top: float) -> list[float]:
    """Round values from 0 to the first that is not below `top`."""
    step = step_for(top)
    return [number * step for number in range(math.ceil(top / step - 1e-9) + 1)]


def draw(path: Path, title: str, x_label: str, y_label: str, series: dict[str, Points]) -> None:
    """Write `path`: every series as a line with its points and its name at the end; axes from 0."""
    x_ticks = ticks_to(max(x for points in series.values() for x, _y in points))
    y_ticks = ticks_to(max(y for points in series.values() for _x, y in points))
    floor, ceiling = HEIGHT - BOTTOM, TOP

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / x_ticks[-1]
        return across, floor - (floor - ceiling) * y / y_ticks[-1]

    parts = [text(LEFT, 24, title, "title"), text(LEFT - 48, 44, y_label)]
    for value in y_ticks:
        _x, y = place(0, value)
        parts.append(line(LEFT, y, WIDTH - RIGHT, y, "grid"))
        parts.append(text(LEFT - 8, y + 4, f"{value:g}", anchor="end"))
    for value in x_ticks:
        x, _y = place(value, 0)
        parts.append(line(x, floor, x, floor + 5, "axis"))
        parts.append(text(x, floor + 20, f"{value:g}", anchor="middle"))
    parts.append(line(LEFT, floor, WIDTH - RIGHT, floor, "axis"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_label, anchor="middle"))
    for (name, points), colour in zip(series.items(), COLOURS, strict=False):
        places = [place(x, y) for x, y in points]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{joined}" class="line" stroke="{colour}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        last_x, last_y = places[-1]
        parts.append(text(last_x + 10, last_y + 4, name, colour=colour))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    label = f"<title>{escape(title)}</title><style>{STYLE}</style>"
    path.write_text("\n".join([head, label, *parts, "</svg>", ""]), encoding="utf-8")


def text(
    x: float, y: float, content: str, kind: str = "", anchor: str = "start", colour: str = ""
) -> str:
    """One line of text."""
    style = f' style="fill:{colour};font-weight:600"' if colour else ""
    name = f' class="{kind}"' if kind else ""
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {where}{name}{style}>{escape(content)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """One straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'
