"""Normalisation and matching of names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepagents_ro.gateway.names import matches, normalise, runs_sql


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("text_normalize", "text_normalize"),
        ("Text-Normalize", "text_normalize"),
        ("utils__text..normalize", "utils_text_normalize"),
        ("__x__", "_x_"),
        ("geo\u212a", "geo_"),  # KELVIN SIGN is not the letter k
        ("\u0130d", "_d"),
    ],
)
def test_normalise(name: str, expected: str) -> None:
    assert normalise(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "text_normalize",
        "TEXT_NORMALIZE",
        "text-normalize",
        "text.normalize",
        "utils__text_normalize",
        "utils.text_normalize",
        "utils/text_normalize",
        "utils:text_normalize",
        "utils-text_normalize",
        "a__b__Text-Normalize",
        "a_b___text_normalize",
    ],
)
def test_matches(name: str) -> None:
    assert matches(name, "text_normalize")


@pytest.mark.parametrize(
    "name",
    [
        "utils_text_normalize",  # one underscore ends no prefix
        "context_normalize",
        "mytext_normalize",
        "text_normalize_v2",
        "text_normalize__",
        "utils__text_normaliz",
        "utils text_normalize",
        "utils._text_normalize",
        "te\u212at_normalize",
        "normalize",
        "",
    ],
)
def test_does_not_match(name: str) -> None:
    assert not matches(name, "text_normalize")


@pytest.mark.parametrize(
    "name",
    [
        "trino_run_query",
        "trino-run-query",
        "utils__trino_run_query",
        "TrinoRunQuery",
        "x.trino__run__query_v2",
        "TRINO/RUN/QUERY",
    ],
)
def test_sql_in_any_form(name: str) -> None:
    assert runs_sql(name)


@pytest.mark.parametrize("name", ["trino_validate_spatial_expression", "run_query", "trino_run"])
def test_not_sql(name: str) -> None:
    assert not runs_sql(name)


@given(st.text(max_size=30), st.text(max_size=10))
def test_a_match_is_the_normalised_name_or_its_end(prefix: str, between: str) -> None:
    name = prefix + between + "text_normalize"
    whole = normalise(name)
    separated = name[: -len("text_normalize")].endswith(("__", ".", "/", ":", "-"))
    assert matches(name, "text_normalize") == (whole == "text_normalize" or separated)
