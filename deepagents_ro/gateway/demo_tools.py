"""The tools of the demo gateway: they do what their names say, and the tests are held to them.

Made with the `mcp` SDK's server. Nothing here contacts anything.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable
from datetime import date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations
from typing_extensions import TypedDict

from .document import Document

READ_ONLY = ToolAnnotations(readOnlyHint=True, destructiveHint=False, openWorldHint=False)
EARTH_M = 6_371_008.8

UNDER_WAY = re.compile(
    r"^(this|the current) (week|month|year|quarter)$"
    r"|^ה(שבוע|חודש|שנה)$|^(ה)?(שבוע|חודש|שנה) (ה)?(נוכחי|נוכחית)$"
)
"""Periods that hold now: refused."""
UNITS = {"week": "week", "month": "month", "year": "year"}
UNITS |= {"שבוע": "week", "חודש": "month", "שנה": "year"}
AWAY = [
    (re.compile(r"^(?:last|past|previous) (week|month|year)$"), -1),
    (re.compile(r"^next (week|month|year)$"), 1),
    (re.compile(r"^ה?(שבוע|חודש|שנה) ה?שעברה?$"), -1),
    (re.compile(r"^ה?(שבוע|חודש|שנה) ה?באה?$"), 1),
    (re.compile(r"^ה?(שבוע|חודש|שנה) הבאה?$"), 1),
]
"""Periods that are taken for the instant one of them away."""
WEEKDAYS = {
    "monday": 0,
    "tuesday": 1,
    "wednesday": 2,
    "thursday": 3,
    "friday": 4,
    "saturday": 5,
    "sunday": 6,
    "שני": 0,
    "שלישי": 1,
    "רביעי": 2,
    "חמישי": 3,
    "שישי": 4,
    "שבת": 5,
    "ראשון": 6,
}
WEEKDAY = re.compile(r"^next (\w+)$|^(?:יום )?(\S+) הבאה?$")
DAYS = {
    "today": 0,
    "היום": 0,
    "yesterday": -1,
    "אתמול": -1,
    "tomorrow": 1,
    "מחר": 1,
    "day before yesterday": -2,
    "שלשום": -2,
}
STEPS = [
    (re.compile(r"^(\d+) (day|days) ago$"), -1, "days"),
    (re.compile(r"^לפני (\d+) (יום|ימים)$"), -1, "days"),
    (re.compile(r"^in (\d+) (day|days)$"), 1, "days"),
    (re.compile(r"^בעוד (\d+) (יום|ימים)$"), 1, "days"),
    (re.compile(r"^(\d+) (hour|hours) ago$"), -1, "hours"),
    (re.compile(r"^לפני (\d+) (שעה|שעות)$"), -1, "hours"),
]

SPATIAL_FUNCTIONS = {
    "st_contains",
    "st_distance",
    "st_dwithin",
    "st_geometryfromtext",
    "st_intersects",
    "st_point",
    "st_within",
    "from_geojson_geometry",
    "to_geometry",
    "to_spherical_geography",
}
POINT_IN_POLYGON = re.compile(
    r"^st_contains\(\s*to_geometry\(\s*from_geojson_geometry\(\s*'((?:[^']|'')*)'\s*\)\s*\)\s*,"
    r"\s*st_point\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*\)$",
    re.IGNORECASE,
)
"""The one expression that can be evaluated here: a point's columns in a polygon."""


class Instant(TypedDict):
    """One instant, with the phrase that named it."""

    instant: str
    timezone: str
    expression: str


class Normalised(TypedDict):
    """A text in its normal form."""

    normalized: str
    changed: bool


class Buffer(TypedDict):
    """A polygon."""

    geojson: Document


class Checked(TypedDict):
    """Whether something is valid, and what is wrong with it."""

    valid: bool
    errors: list[str]


class Evaluated(TypedDict):
    """The same of an expression, with its value on the row that was given, if one was."""

    valid: bool
    errors: list[str]
    result: bool | None


def build(called: Callable[[str], None] = lambda _name: None, prefix: str = "") -> FastMCP[object]:
    """The server with its tools, each under its name behind `prefix`; `called` hears of calls."""
    mcp: FastMCP[object] = FastMCP("utils", json_response=True, log_level="CRITICAL")
    add_language_tools(mcp, called, prefix)
    add_spatial_tools(mcp, called, prefix)
    add_refused_tools(mcp, called, prefix)
    return mcp


def add_language_tools(mcp: FastMCP[object], called: Callable[[str], None], prefix: str) -> None:
    """Instants and texts."""

    @mcp.tool(
        prefix + "datetime_parse_relative_expression", annotations=READ_ONLY, structured_output=True
    )
    def datetime_parse_relative_expression(
        expression: str, timezone: str = "Asia/Jerusalem", reference_time: str = ""
    ) -> Instant:
        """Resolve a relative time expression (English or Hebrew) to one instant."""
        called("datetime_parse_relative_expression")
        zone = ZoneInfo(timezone)
        now = datetime.fromisoformat(reference_time) if reference_time else datetime.now(zone)
        found = instant(expression, now.astimezone(zone))
        return {"instant": found.isoformat(), "timezone": timezone, "expression": expression}

    @mcp.tool(prefix + "text_normalize", annotations=READ_ONLY, structured_output=True)
    def text_normalize(text: str) -> Normalised:
        """Unicode NFKC, no Hebrew points, single spaces."""
        called("text_normalize")
        folded = unicodedata.normalize("NFKC", text)
        bare = "".join(c for c in folded if not "\u0591" <= c <= "\u05c7")
        normal = " ".join(bare.split())
        return {"normalized": normal, "changed": normal != text}


def add_spatial_tools(mcp: FastMCP[object], called: Callable[[str], None], prefix: str) -> None:
    """Geometries and expressions about them."""

    @mcp.tool(
        prefix + "trino_validate_spatial_expression", annotations=READ_ONLY, structured_output=True
    )
    def trino_validate_spatial_expression(
        expression: str, row: dict[str, float] | None = None
    ) -> Evaluated:
        """Check a spatial SQL expression without running it; evaluate it on one row if given."""
        called("trino_validate_spatial_expression")
        errors = spatial_errors(expression)
        result = evaluated(expression, row) if row is not None and not errors else None
        return {"valid": not errors, "errors": errors, "result": result}

    @mcp.tool(prefix + "geo_create_buffer", annotations=READ_ONLY, structured_output=True)
    def geo_create_buffer(
        longitude: float, latitude: float, distance_m: float, segments: int = 32
    ) -> Buffer:
        """A circle around a point, as a GeoJSON polygon."""
        called("geo_create_buffer")
        if not 0 < distance_m <= 1_000_000:
            raise ValueError("distance_m must be between 0 and 1,000,000")
        ring = [
            destination(longitude, latitude, 2 * math.pi * step / segments, distance_m)
            for step in range(segments, 0, -1)
        ]
        return {"geojson": {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}}

    @mcp.tool(prefix + "geo_validate_geometry", annotations=READ_ONLY, structured_output=True)
    def geo_validate_geometry(geojson: Document) -> Checked:
        """Check a GeoJSON geometry."""
        called("geo_validate_geometry")
        errors = geometry_errors(geojson)
        return {"valid": not errors, "errors": errors}


def add_refused_tools(mcp: FastMCP[object], called: Callable[[str], None], prefix: str) -> None:
    """What no agent gets, for each reason that there is."""

    @mcp.tool(prefix + "trino_run_query", annotations=READ_ONLY)
    def trino_run_query(sql: str) -> str:
        """Run SQL. Calls itself read-only; nobody may ever be offered it."""
        called("trino_run_query")
        return "rows"

    @mcp.tool(prefix + "registry_put", annotations=ToolAnnotations(readOnlyHint=False))
    def registry_put(key: str, value: str) -> str:
        """Write an entry."""
        called("registry_put")
        return "written"

    @mcp.tool(
        prefix + "registry_delete",
        annotations=ToolAnnotations(readOnlyHint=False, destructiveHint=True),
    )
    def registry_delete(key: str) -> str:
        """Delete an entry."""
        called("registry_delete")
        return "deleted"

    @mcp.tool(prefix + "weather_now", annotations=READ_ONLY)
    def weather_now(place: str) -> str:
        """A read-only tool that no table lists."""
        called("weather_now")
        return "sunny"


def instant(expression: str, now: datetime) -> datetime:
    """The instant that `expression` names; the period under way and unknown phrases are refused.

    A period that has passed or is to come is taken for the instant one of it away.
    """
    phrase = " ".join(expression.lower().split())
    if UNDER_WAY.match(phrase):
        raise ValueError(f"'{expression}' is a period, not an instant")
    if phrase in ("now", "עכשיו", "כעת"):
        return now
    if phrase in DAYS:
        return midnight(now.date() + timedelta(days=DAYS[phrase]), now)
    for pattern, sign, unit in STEPS:
        match = pattern.match(phrase)
        if match:
            return moved(now, sign * int(match.group(1)), unit)
    for pattern, sign in AWAY:
        match = pattern.match(phrase)
        if match:
            return away(now, sign, UNITS[match.group(1)])
    match = WEEKDAY.match(phrase)
    weekday = WEEKDAYS.get(match.group(1) or match.group(2)) if match else None
    if weekday is not None:
        return midnight(now.date() + timedelta(days=(weekday - now.weekday() - 1) % 7 + 1), now)
    raise ValueError(f"'{expression}' is not a relative expression that is known")


def midnight(day: date, like: datetime) -> datetime:
    """The first instant of a day."""
    return datetime(day.year, day.month, day.day, tzinfo=like.tzinfo)


def away(now: datetime, sign: int, unit: str) -> datetime:
    """The same time of day one week, month or year away; the last day where there is none such."""
    if unit == "week":
        return now + timedelta(days=7 * sign)
    index = now.year * 12 + now.month - 1 + sign * (12 if unit == "year" else 1)
    first = date(index // 12, index % 12 + 1, 1)
    following = date(first.year + first.month // 12, first.month % 12 + 1, 1)
    return now.replace(
        year=first.year, month=first.month, day=min(now.day, (following - first).days)
    )


def moved(now: datetime, amount: int, unit: str) -> datetime:
    """Days on the wall clock, hours on the real one."""
    if unit == "days":
        return now + timedelta(days=amount)
    utc = now.astimezone(ZoneInfo("UTC")) + timedelta(hours=amount)
    return utc.astimezone(now.tzinfo)


def destination(
    longitude: float, latitude: float, bearing: float, distance_m: float
) -> list[float]:
    """`[longitude, latitude]` after going `distance_m` on the sphere."""
    angle = distance_m / EARTH_M
    lat, lon = math.radians(latitude), math.radians(longitude)
    to_lat = math.asin(
        math.sin(lat) * math.cos(angle) + math.cos(lat) * math.sin(angle) * math.cos(bearing)
    )
    to_lon = lon + math.atan2(
        math.sin(bearing) * math.sin(angle) * math.cos(lat),
        math.cos(angle) - math.sin(lat) * math.sin(to_lat),
    )
    return [round(math.degrees(to_lon), 7), round(math.degrees(to_lat), 7)]


def geometry_errors(geojson: Document) -> list[str]:
    """What is wrong with a GeoJSON geometry."""
    kind = geojson.get("type")
    if kind == "Point":
        return position_errors(geojson.get("coordinates"))
    if kind != "Polygon":
        return [f"unsupported type: {kind}"]
    errors = []
    for ring in geojson.get("coordinates") or [[]]:
        if len(ring) < 4:
            errors.append("a ring needs four positions")
        elif ring[0] != ring[-1]:
            errors.append("a ring is not closed")
        for position in ring:
            errors += position_errors(position)
    return errors


def position_errors(position: object) -> list[str]:
    """What is wrong with `[longitude, latitude]`."""
    if not isinstance(position, list) or len(position) < 2:
        return ["a position needs two numbers"]
    if not (-180 <= position[0] <= 180 and -90 <= position[1] <= 90):
        return ["longitude or latitude out of range"]
    return []


def spatial_errors(expression: str) -> list[str]:
    """What is wrong with a spatial expression: quotes, parentheses, functions, GeoJSON text."""
    errors = []
    literals = [text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", expression)]
    code = re.sub(r"'(?:[^']|'')*'", "?", expression)
    if "'" in code:
        errors.append("an unclosed string")
    depth = 0
    for character in code:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
    if depth != 0:
        errors.append("unbalanced parentheses")
    for function in re.findall(r"([A-Za-z_]\w*)\s*\(", code):
        if function.lower() not in SPATIAL_FUNCTIONS:
            errors.append(f"unknown function: {function}")
    if "from_geojson_geometry" in code.lower():
        for text in literals:
            errors += geojson_text_errors(text)
    return errors


def geojson_text_errors(text: str) -> list[str]:
    """What is wrong with the text given to `from_geojson_geometry`."""
    try:
        document = json.loads(text)
    except ValueError:
        return ["the text is not GeoJSON"]
    if not isinstance(document, dict):
        return ["the text is not GeoJSON"]
    if document.get("type") in ("Feature", "FeatureCollection"):
        return ["a Feature is not a geometry: pass its geometry"]
    return geometry_errors(document)


def evaluated(expression: str, row: dict[str, float]) -> bool:
    """The value of a valid expression on one row.

    Raises:
        ValueError: it is of another form, or the row lacks one of its columns.
    """
    match = POINT_IN_POLYGON.match(expression.strip())
    if match is None:
        raise ValueError("an expression of this form cannot be evaluated here")
    text, longitude, latitude = match.groups()
    for column in (longitude, latitude):
        if column not in row:
            raise ValueError(f"the row has no column {column}")
    polygon = json.loads(text.replace("''", "'"))
    if polygon["type"] != "Polygon":
        return False
    inside = [contains(ring, row[longitude], row[latitude]) for ring in polygon["coordinates"]]
    return inside[0] and not any(inside[1:])


def contains(ring: list[list[float]], x: float, y: float) -> bool:
    """Whether a point is inside a closed ring: an odd number of sides to its east."""
    inside = False
    for (x1, y1), (x2, y2) in pairwise(ring):
        if (y1 > y) != (y2 > y) and x < (x2 - x1) * (y - y1) / (y2 - y1) + x1:
            inside = not inside
    return inside
