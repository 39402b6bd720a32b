"""Plain data to dataclasses: what fits, and what the error says when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pytest

from raftlog.errors import ConfigError, InvalidRequestError
from raftlog.model import Address
from raftlog.schema import from_plain, limited


@dataclass(frozen=True, kw_only=True)
class Inner:
    count: int
    ratio: float = 1.0


class Place(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    mode: Literal["a", "b"] = "a"
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    labels: Mapping[str, int] = field(default_factory=dict)
    address: Address | None = None
    either: str | int | bool = 0
    anything: Any = None
    flag: bool = False
    place: Place | None = None


def test_everything_that_fits():
    built = from_plain(
        Outer,
        {
            "name": "n",
            "mode": "b",
            "inner": {"count": 1, "ratio": 2},
            "many": [{"count": 2}],
            "labels": {"x": 3},
            "address": "[::1]:80",
            "either": True,
            "anything": {"free": ["form"]},
            "flag": True,
            "place": ["t", 4],
        },
    )

    assert built == Outer(
        name="n",
        mode="b",
        inner=Inner(count=1, ratio=2.0),
        many=(Inner(count=2),),
        labels={"x": 3},
        address=Address("::1", 80),
        either=True,
        anything={"free": ["form"]},
        flag=True,
        place=Place("t", 4),
    )
    assert built.either is True


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["list"], "expected an object, received ['list']"),
        ({}, "name: missing; it is required"),
        ({"name": 1}, "name: expected a string, received 1"),
        ({"name": "n", "mode": "c"}, "mode: expected one of 'a', 'b', received 'c'"),
        ({"name": "n", "inner": {"count": True}}, "inner.count: expected an integer, received True"),
        ({"name": "n", "inner": {"count": 1.5}}, "inner.count: expected an integer, received 1.5"),
        ({"name": "n", "many": [{"count": 1}, {"count": "x"}]}, "many[1].count: expected an integer, received 'x'"),
        ({"name": "n", "many": {"count": 1}}, "many: expected a list, received {'count': 1}"),
        ({"name": "n", "labels": {"x": "y"}}, "labels.x: expected an integer, received 'y'"),
        ({"name": "n", "labels": []}, "labels: expected an object, received []"),
        ({"name": "n", "address": "nowhere"}, "address: expected host:port, received 'nowhere'"),
        ({"name": "n", "address": 9400}, "address: expected host:port, received 9400"),
        ({"name": "n", "either": None}, "either: expected str or int or bool, received None"),
        ({"name": "n", "place": ["t"]}, "place: expected a list of topic, partition, received ['t']"),
        ({"name": "n", "place": ["t", "x"]}, "place.partition: expected an integer, received 'x'"),
        ({"name": "n", "flag": 1}, "flag: expected true or false, received 1"),
    ],
)
def test_what_does_not_fit_is_named(data: object, message: str):
    with pytest.raises(InvalidRequestError) as caught:
        from_plain(Outer, data)

    assert caught.value.message == message


def test_unknown_names_are_refused_or_ignored_as_the_caller_asks():
    data = {"name": "n", "inner": {"count": 1, "cuont": 2}}

    with pytest.raises(ConfigError, match=r"inner\.cuont: unknown name; known names are count, ratio"):
        from_plain(Outer, data, error=ConfigError)
    assert from_plain(Outer, data, ignore_unknown=True).inner == Inner(count=1)


def test_long_values_are_cut_in_messages():
    with pytest.raises(InvalidRequestError) as caught:
        from_plain(Outer, {"name": list(range(1000))})

    assert len(caught.value.message) < 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    names: tuple[str, ...] = field(default=(), metadata=limited(least=1, most=2))
    count: int = field(default=1, metadata=limited(least=1, most=9))
    half: int = field(default=0, metadata=limited())


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"names": []}, "names: expected at least 1, received none"),
        ({"names": [1, 2, 3]}, "names: expected at most 2, received 3"),
        ({"names": [1]}, "names[0]: expected a string"),
        ({"count": 0}, "count: expected 1 to 9, received 0"),
        ({"count": True}, "count: expected an integer, received True"),
        ({"half": -1}, "half: expected 0 to 9223372036854775807, received -1"),
        ({"half": 2**63}, "half: expected 0 to 9223372036854775807"),
    ],
)
def test_limits_of_fields(plain: dict[str, Any], message: str):
    """The number of a list's items is checked before any of them."""
    with pytest.raises(InvalidRequestError) as refused:
        from_plain(Bounded, plain)
    assert refused.value.message.startswith(message)


def test_values_within_limits_are_read():
    assert from_plain(Bounded, {"names": ["a", "b"], "count": 9}) == Bounded(names=("a", "b"), count=9)
    assert from_plain(Bounded, {}) == Bounded()
