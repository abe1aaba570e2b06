"""The MCP server behind the test gateway: tools that really do what their names say.

    python upstream.py LOG

Made with the `mcp` SDK. LOG gets `call TOOL` for each call. Ends when standard input ends.
"""

import json
import logging
import math
import os
import re
import socket
import sys
import threading
import unicodedata
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import uvicorn
from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

READ_ONLY = ToolAnnotations(readOnlyHint=True, destructiveHint=False, openWorldHint=False)
EARTH_M = 6_371_008.8

PERIODS = re.compile(
    r"^(this|last|next|the past) (week|month|year|quarter)$"
    r"|^(ה)?(שבוע|חודש|שנה)( (ה)?(שעבר|שעברה|הבא|הבאה|נוכחי|נוכחית))?$"
)
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


def build(log: Any) -> FastMCP:
    """The server with its tools."""
    mcp = FastMCP("utils", json_response=True, log_level="CRITICAL")

    def called(name: str) -> None:
        log.write(f"call {name}\n".encode())

    @mcp.tool(annotations=READ_ONLY, structured_output=True)
    def datetime_parse_relative_expression(
        expression: str, timezone: str = "Asia/Jerusalem", reference_time: str = ""
    ) -> dict[str, Any]:
        """Resolve a relative time expression (English or Hebrew) to one instant."""
        called("datetime_parse_relative_expression")
        zone = ZoneInfo(timezone)
        now = datetime.fromisoformat(reference_time) if reference_time else datetime.now(zone)
        found = instant(expression, now.astimezone(zone))
        return {"instant": found.isoformat(), "timezone": timezone, "expression": expression}

    @mcp.tool(annotations=READ_ONLY, structured_output=True)
    def text_normalize(text: str) -> dict[str, Any]:
        """Unicode NFKC, no Hebrew points, single spaces."""
        called("text_normalize")
        folded = unicodedata.normalize("NFKC", text)
        bare = "".join(c for c in folded if not "\u0591" <= c <= "\u05c7")
        normal = " ".join(bare.split())
        return {"normalized": normal, "changed": normal != text}

    @mcp.tool(annotations=READ_ONLY, structured_output=True)
    def trino_validate_spatial_expression(expression: str) -> dict[str, Any]:
        """Check a spatial SQL expression without running it."""
        called("trino_validate_spatial_expression")
        errors = spatial_errors(expression)
        return {"valid": not errors, "errors": errors}

    @mcp.tool(annotations=READ_ONLY, structured_output=True)
    def geo_create_buffer(
        longitude: float, latitude: float, distance_m: float, segments: int = 32
    ) -> dict[str, Any]:
        """A circle around a point, as a GeoJSON polygon."""
        called("geo_create_buffer")
        if not 0 < distance_m <= 1_000_000:
            raise ValueError("distance_m must be between 0 and 1,000,000")
        ring = [
            destination(longitude, latitude, 2 * math.pi * step / segments, distance_m)
            for step in range(segments, 0, -1)
        ]
        return {"geojson": {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}}

    @mcp.tool(annotations=READ_ONLY, structured_output=True)
    def geo_validate_geometry(geojson: dict[str, Any]) -> dict[str, Any]:
        """Check a GeoJSON geometry."""
        called("geo_validate_geometry")
        errors = geometry_errors(geojson)
        return {"valid": not errors, "errors": errors}

    @mcp.tool(annotations=READ_ONLY)
    def trino_run_query(sql: str) -> str:
        """Run SQL. Calls itself read-only; nobody may ever be offered it."""
        called("trino_run_query")
        return "rows"

    @mcp.tool(annotations=ToolAnnotations(readOnlyHint=False))
    def registry_put(key: str, value: str) -> str:
        """Write an entry."""
        called("registry_put")
        return "written"

    @mcp.tool(annotations=ToolAnnotations(readOnlyHint=False, destructiveHint=True))
    def registry_delete(key: str) -> str:
        """Delete an entry."""
        called("registry_delete")
        return "deleted"

    @mcp.tool(annotations=READ_ONLY)
    def weather_now(place: str) -> str:
        """A read-only tool that no table lists."""
        called("weather_now")
        return "sunny"

    return mcp


def instant(expression: str, now: datetime) -> datetime:
    """The instant that `expression` names; periods and unknown phrases are refused."""
    phrase = " ".join(expression.lower().split())
    if PERIODS.match(phrase):
        raise ValueError(f"'{expression}' is a period, not an instant")
    if phrase in ("now", "עכשיו", "כעת"):
        return now
    if phrase in DAYS:
        day = now.date() + timedelta(days=DAYS[phrase])
        return datetime(day.year, day.month, day.day, tzinfo=now.tzinfo)
    for pattern, sign, unit in STEPS:
        match = pattern.match(phrase)
        if match:
            return moved(now, sign * int(match.group(1)), unit)
    raise ValueError(f"'{expression}' is not a relative expression that is known")


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


def geometry_errors(geojson: dict[str, Any]) -> list[str]:
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


def position_errors(position: Any) -> list[str]:
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


def main() -> None:
    """Serve until standard input ends."""
    logging.disable(logging.CRITICAL)
    log = Path(sys.argv[1]).open("ab", buffering=0)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.stdout.write(json.dumps({"port": listener.getsockname()[1]}) + "\n")
    sys.stdout.flush()
    config = uvicorn.Config(build(log).streamable_http_app(), log_level="critical")
    uvicorn.Server(config).run(sockets=[listener])


def end_with_parent() -> None:
    """Leave when the parent closes our standard input."""
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
