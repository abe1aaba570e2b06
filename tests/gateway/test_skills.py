"""Each rule of the two skills against what the gateway's tools really do."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import date, datetime, time, timedelta
from importlib import resources
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio

from deepagents_ro.gateway import GatewayTools, load_gateway_tools

from .conftest import Gateway
from .test_agent import spatial_condition

ZONE = ZoneInfo("Asia/Jerusalem")
SKILLS = resources.files("deepagents_ro").joinpath("skills")
TEMPORAL = SKILLS.joinpath("temporal-analyst", "SKILL.md").read_text(encoding="utf-8")
SPATIAL = SKILLS.joinpath("spatial-analyst", "SKILL.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The rows of the table under a heading of the temporal skill."""
    section = TEMPORAL.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


EXAMPLES = [row[:4] for row in rows("Worked examples")]
PERIODS = rows("Phrases for periods")


@pytest_asyncio.fixture
async def tools(gateway: Gateway) -> AsyncIterator[GatewayTools]:
    async with await load_gateway_tools(gateway.config()) as loaded:
        yield loaded


async def resolve(tools: GatewayTools, phrase: str, now: str = "") -> dict[str, Any]:
    return await tools.tools["datetime_parse_relative_expression"].ainvoke(
        {"expression": phrase, "reference_time": now}
    )


def midnight(day: date) -> datetime:
    """Rule 6: 00:00 of the zone, with the offset of that moment."""
    return datetime.combine(day, time(0), ZONE)


def first_of_month(day: date, months: int) -> date:
    """Rule 4, `months` months away."""
    index = day.year * 12 + day.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)


def bounds(period: str, today: date) -> tuple[datetime, datetime]:
    """Rules 2 to 4 and 6, on dates alone."""
    sunday = today - timedelta(days=(today.weekday() + 1) % 7)
    days = {
        "today": (today, today + timedelta(days=1)),
        "yesterday": (today - timedelta(days=1), today),
        "this week": (sunday, sunday + timedelta(days=7)),
        "last week": (sunday - timedelta(days=7), sunday),
        "next week": (sunday + timedelta(days=7), sunday + timedelta(days=14)),
        "this month": (first_of_month(today, 0), first_of_month(today, 1)),
        "last month": (first_of_month(today, -1), first_of_month(today, 0)),
        "this year": (date(today.year, 1, 1), date(today.year + 1, 1, 1)),
        "last year": (date(today.year - 1, 1, 1), date(today.year, 1, 1)),
    }
    start, end = days[period]
    return midnight(start), midnight(end)


@pytest.mark.parametrize(("today", "period", "start", "end"), EXAMPLES)
async def test_worked_examples(
    tools: GatewayTools, today: str, period: str, start: str, end: str
) -> None:
    """Anchored on what the tool says, in English and in Hebrew, built by the skill's rules."""
    for phrase, hour in (("today", "00:30"), ("היום", "23:30")):
        now = datetime.fromisoformat(f"{today}T{hour}:00").replace(tzinfo=ZONE).isoformat()
        answer = await resolve(tools, phrase, now)
        anchor = datetime.fromisoformat(answer["data"]["instant"]).date()
        assert anchor.isoformat() == today
        built = bounds(period, anchor)
        assert [bound.isoformat() for bound in built] == [start, end]


def test_the_examples_show_what_they_say() -> None:
    hours = {}
    for today, period, start, end in EXAMPLES:
        lower, upper = datetime.fromisoformat(start), datetime.fromisoformat(end)
        hours[today, period] = (upper - lower).total_seconds() / 3600
        if "week" in period:
            assert lower.weekday() == upper.weekday() == 6  # Sunday
    assert hours["2026-03-25", "this week"] == 167
    assert hours["2026-10-28", "this week"] == 169
    assert hours["2026-03-27", "today"] == 23
    assert hours["2026-10-26", "yesterday"] == 25


def test_midnight_exists_once_on_every_day() -> None:
    for offset in range(3 * 366):
        moment = midnight(date(2025, 1, 1) + timedelta(days=offset))
        utc = moment.astimezone(ZoneInfo("UTC"))
        assert utc.astimezone(ZONE).replace(fold=0) == moment
        assert moment.utcoffset() == moment.replace(fold=1).utcoffset()


@pytest.mark.parametrize(
    "row", [row for row in PERIODS if row[0].startswith("this")], ids=lambda row: row[1]
)
async def test_the_period_under_way_is_refused(tools: GatewayTools, row: list[str]) -> None:
    _period, english, hebrew = row
    for phrase in (english, hebrew):
        answer = await resolve(tools, phrase)
        assert not answer["ok"], phrase
        assert "period, not an instant" in answer["error"]["message"]


@pytest.mark.parametrize(
    "row", [row for row in PERIODS if row[0].split()[0] in ("last", "next")], ids=lambda row: row[1]
)
async def test_another_period_is_answered_with_an_instant_that_is_no_bound(
    tools: GatewayTools, row: list[str]
) -> None:
    period, english, hebrew = row
    now = "2026-11-18T15:00:00+02:00"
    found = {(await resolve(tools, phrase, now))["data"]["instant"] for phrase in (english, hebrew)}
    assert len(found) == 1
    start, end = bounds(period, date(2026, 11, 18))
    instant = datetime.fromisoformat(found.pop())
    assert start < instant < end


async def test_the_instants_of_the_traps(tools: GatewayTools) -> None:
    now = "2026-11-30T12:00:00+02:00"
    expected = {
        "חודש שעבר": "2026-10-30T12:00:00+02:00",
        "last month": "2026-10-30T12:00:00+02:00",
        "יום ראשון הבא": "2026-12-06T00:00:00+02:00",
        "לפני 3 ימים": "2026-11-27T12:00:00+02:00",
    }
    for phrase, instant in expected.items():
        assert (await resolve(tools, phrase, now))["data"]["instant"] == instant
    clipped = await resolve(tools, "חודש שעבר", "2026-03-31T12:00:00+03:00")
    assert clipped["data"]["instant"] == "2026-02-28T12:00:00+02:00"


@pytest.mark.parametrize("row", PERIODS[:2], ids=lambda row: row[1])
async def test_a_day_resolves_to_its_first_instant(tools: GatewayTools, row: list[str]) -> None:
    period, english, hebrew = row
    now = "2026-03-27T15:00:00+03:00"
    found = {(await resolve(tools, phrase, now))["data"]["instant"] for phrase in (english, hebrew)}
    assert found == {bounds(period, date(2026, 3, 27))[0].isoformat()}


@pytest.mark.parametrize(
    "phrase",
    re.findall(r'"([^"]+)"', TEMPORAL.split("Points in time", 1)[1].split("The trap", 1)[0]),
)
async def test_the_instants_that_the_skill_names(tools: GatewayTools, phrase: str) -> None:
    answer = await resolve(tools, phrase, "2026-11-30T12:00:00+02:00")
    assert answer["ok"], phrase
    assert datetime.fromisoformat(answer["data"]["instant"]).tzinfo is not None


async def test_hours_ago_count_real_hours(tools: GatewayTools) -> None:
    answer = await resolve(tools, "2 hours ago", "2026-03-27T03:30:00+03:00")
    assert answer["data"]["instant"] == "2026-03-27T00:30:00+02:00"


async def test_a_buffer_is_geojson_that_the_validated_condition_takes(
    tools: GatewayTools,
) -> None:
    buffer = await tools.tools["geo_create_buffer"].ainvoke(
        {"longitude": 35.2137, "latitude": 31.7683, "distance_m": 500}
    )
    geojson = buffer["data"]["geojson"]
    assert geojson["type"] == "Polygon"
    assert geojson["coordinates"][0][0] == geojson["coordinates"][0][-1]
    assert all(34 < position[0] < 36 for position in geojson["coordinates"][0])
    checked = await tools.tools["geo_validate_geometry"].ainvoke({"geojson": geojson})
    assert checked["data"]["valid"] is True
    validate = tools.tools["trino_validate_spatial_expression"]
    good = await validate.ainvoke({"expression": spatial_condition(geojson)})
    assert good["data"] == {"valid": True, "errors": [], "result": None}
    feature = {"type": "Feature", "geometry": geojson, "properties": {}}
    bad = await validate.ainvoke({"expression": spatial_condition(feature)})
    assert bad["data"]["valid"] is False


async def test_the_validation_evaluates_on_one_row(tools: GatewayTools) -> None:
    buffer = await tools.tools["geo_create_buffer"].ainvoke(
        {"longitude": 35.2137, "latitude": 31.7683, "distance_m": 500}
    )
    expression = spatial_condition(buffer["data"]["geojson"])
    validate = tools.tools["trino_validate_spatial_expression"]
    for row, result in (
        ({"lon": 35.2137, "lat": 31.7683}, True),
        ({"lon": 35.2237, "lat": 31.7683}, False),
    ):
        answer = await validate.ainvoke({"expression": expression, "row": row})
        assert answer["data"] == {"valid": True, "errors": [], "result": result}
    missing = await validate.ainvoke({"expression": expression, "row": {"lon": 1}})
    assert "no column lat" in missing["error"]["message"]


def skill_of(tools: dict[str, Any], name: str) -> str:
    from deepagents_ro.gateway.skill_files import PackagedSkills  # imports every provider

    backend = PackagedSkills(tools)
    return (Path(backend.cwd) / name / "SKILL.md").read_text(encoding="utf-8")


async def test_names_in_a_skill_are_those_of_the_loaded_tools(
    gateway: Gateway, tools: GatewayTools
) -> None:
    text = skill_of(tools.tools, "spatial-analyst")
    buffer = tools.tools["geo_create_buffer"]
    assert isinstance(buffer.args_schema, dict)
    for argument in buffer.args_schema["properties"]:
        assert f"`{argument}` (" in text
        assert argument not in SPATIAL.replace("longitude, latitude", "").split("TOOLS:")[1] or (
            argument in ("longitude", "latitude")  # words of the example
        )
    assert "Its `data` has `geojson` (object)" in text
    schema = {"type": "object", "properties": {"metres": {"type": "number"}}}
    gateway.mode(schemas={"geo_create_buffer": schema})
    async with load_gateway_tools(gateway.config()) as other:
        text = skill_of(other.tools, "spatial-analyst")
        assert "`geo_create_buffer` takes `metres` (number, optional)." in text
        assert "distance_m" not in text
    assert "`geo_create_buffer`: not loaded" in skill_of({}, "spatial-analyst")


async def test_the_example_of_the_spatial_skill_validates(tools: GatewayTools) -> None:
    example = next(
        line.strip() for line in SPATIAL.splitlines() if "{geojson}" in line and "ST_" in line
    )
    text = json.dumps({"type": "Point", "coordinates": [35.21, 31.77]}, separators=(",", ":"))
    answer = await tools.tools["trino_validate_spatial_expression"].ainvoke(
        {"expression": example.replace("{geojson}", text)}
    )
    assert answer["data"] == {"valid": True, "errors": [], "result": None}


@pytest.mark.parametrize(
    "expression", ["ST_Contains(a", "ST_Nearest(a, b)", "ST_Contains('a, b)", "ST_Within(a, b))"]
)
async def test_what_the_validator_refuses(tools: GatewayTools, expression: str) -> None:
    answer = await tools.tools["trino_validate_spatial_expression"].ainvoke(
        {"expression": expression}
    )
    assert answer["ok"]
    assert answer["data"]["valid"] is False
    assert answer["data"]["errors"]


def test_deepagents_loads_both() -> None:
    from deepagents.middleware.skills import SkillsMiddleware

    from deepagents_ro.gateway.skill_files import MOUNT, NAMES, mounted

    middleware = SkillsMiddleware(backend=mounted(None), sources=[MOUNT])
    update = middleware.before_agent({"messages": []}, None, {})  # type: ignore[arg-type]
    assert {skill["name"] for skill in update["skills_metadata"]} == set(NAMES)
    for skill in update["skills_metadata"]:
        assert 40 < len(skill["description"]) <= 1024
