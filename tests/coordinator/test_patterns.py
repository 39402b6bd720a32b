"""Patterns match as Python's do, for what they know, and never take long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.coordinator.group.patterns import Pattern
from raftlog.errors import ErrorCode, InvalidRequestError

_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\.", "c-", "[a-c0]"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}"])).map(lambda p: f"(?:{p[0]}){p[1]}"),
    )


@given(st.recursive(_ATOMS, _larger, max_leaves=6), st.text("abc.-01", max_size=6))
def test_patterns_match_as_pythons_do(pattern: str, name: str):
    assert Pattern(pattern).matches(name) == (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("flights-.*", "flights-2013", "my-flights-2013"),
        ("^flights$", "flights", "flights2"),
        (r"a\.b|c", "a.b", "axb"),
        ("[]-]x", "]x", "ax"),
        ("", "", "a"),
    ],
)
def test_examples(pattern: str, fits: str, not_: str):
    assert Pattern(pattern).matches(fits)
    assert not Pattern(pattern).matches(not_)


def test_what_would_keep_a_backtracking_matcher_busy_for_years_takes_no_time():
    started = time.monotonic()
    assert not Pattern("(a*)*" * 10 + "b").matches("a" * 249)
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "pattern",
    [
        "(a",
        "a)",
        "[a",
        "*a",
        r"\1",
        "(?=a)",
        "a{2,1}",
        "a{x}",
        "a{1000}" * 9,
        "(" * 500 + ")" * 500,
        "a**",
        "(((){1000}){1000}){1000}",
        "a{9999}",
        "a" * 1001,
        "a\\",
    ],
)
def test_what_is_not_known_is_refused(pattern: str):
    with pytest.raises(InvalidRequestError, match="pattern: ") as refused:
        Pattern(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
