"""Patterns match as Python's do, for what they know, and never take long."""

from __future__ import annotations

import re
import subprocess
import sys
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
        "((((a{0}){1000}){1000}){1000}){1000}",
        "[\u0001-\U0010ffff]" * 3,
        "[\u0001-\U0010ffff]" * 200,
        "a{1000}" * 9,
        "((x+x+)+y)+" * 50,
        "(" * 400 + "a" + ")*" * 400,
        "|".join("abcdefgh" * 10),
        "(?i)" + "[a-z]{1,200}" * 5,
    ],
    ids=lambda pattern: pattern[:30],
)
def test_no_pattern_takes_long_or_much_memory(pattern: str):
    """In a process of its own: one that hangs, or takes the machine's memory, must not take the tests with it."""
    program = (
        "import resource, sys, time\n"
        "from raftlog.coordinator.group.patterns import Pattern\n"
        "from raftlog.errors import InvalidRequestError\n"
        "before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()\n"
        "try:\n"
        "    Pattern(sys.argv[1]).matches('a' * 249)\n"
        "except InvalidRequestError:\n"
        "    pass\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(time.process_time() - started, (after - before) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, pattern], capture_output=True, text=True, check=True, timeout=60
    )
    seconds, megabytes = map(float, done.stdout.split())
    assert seconds < 0.05
    assert megabytes < 16


def test_case_may_be_ignored():
    assert Pattern("(?i)flights").matches("FLIGHTS")


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
        "\ud800",
        "(" * 5_000 + ")" * 5_000,
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
