"""The blocking classes offer what the async ones do: the same names, parameters, defaults, types and descriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from inspect import Parameter
from typing import Any, Self

import pytest
from api_reference import Doc, function_of, parameters, public_members, types_of

from raftlog import blocking, client, read_arrow, read_pandas, scan_polars
from raftlog.blocking.producer import Transaction
from raftlog.client import transactions
from raftlog.client.consumer import Consumer
from raftlog.errors import ConfigError

PAIRS = [*((getattr(client, name), getattr(blocking, name)) for name in blocking.__all__)]
PAIRS.append((transactions.Transaction, Transaction))
METHODS = [
    pytest.param(function_of(member), function_of(public_members(plain)[name]), id=f"{plain.__name__}.{name}")
    for asynchronous, plain in PAIRS
    for name, member in public_members(asynchronous).items()
    if name in public_members(plain)
]
CONSTRUCTORS = [pytest.param(a.__init__, p.__init__, id=p.__name__) for a, p in PAIRS[:3]]
HANDED_OUT = {
    asyncio.Task[None]: Future[None],
    client.Delivery: Future[client.RecordMetadata],
    transactions.Transaction: Iterator[Transaction],
}
"""What methods return that are no coroutines, and what the blocking ones return: a future of threads, a context."""


def shape(function: Callable[..., Any]) -> list[tuple[str, Any, object, Any]]:
    types = types_of(function)
    return [(p.name, p.kind, p.default, types[p.name]) for p in parameters(function).values()]


@pytest.mark.parametrize(("asynchronous", "plain"), PAIRS)
def test_nothing_is_missing(asynchronous: type, plain: type):
    assert public_members(plain).keys() == public_members(asynchronous).keys()


@pytest.mark.parametrize(("asynchronous", "plain"), [*CONSTRUCTORS, *METHODS])
def test_parameters_are_the_same(asynchronous: Callable[..., Any], plain: Callable[..., Any]):
    assert shape(plain) == shape(asynchronous)
    assert Parameter.VAR_KEYWORD not in {p.kind for p in parameters(plain).values()}


@pytest.mark.parametrize(("asynchronous", "plain"), METHODS)
def test_what_is_awaited_is_returned(asynchronous: Callable[..., Any], plain: Callable[..., Any]):
    awaited = types_of(asynchronous)["return"]
    if not asyncio.iscoroutinefunction(asynchronous):
        awaited = HANDED_OUT.get(awaited, awaited)
    assert types_of(plain)["return"] == awaited


def test_iteration_yields_what_is_awaited():
    record = types_of(Consumer.__anext__)["return"]
    assert types_of(blocking.Consumer.__iter__)["return"] == Iterator[record]


@pytest.mark.parametrize(("asynchronous", "plain"), [*PAIRS, *METHODS])
def test_parameters_are_described_alike(asynchronous: object, plain: object):
    described = {name: text.replace("`async with`", "`with`") for name, text in Doc(asynchronous).arguments.items()}
    assert Doc(plain).arguments == described


def test_tables_are_read_with_the_same_options():
    assert shape(read_pandas) == shape(read_arrow)
    assert [each for each in shape(read_arrow) if each[0] not in ("columns", "max_records")] == shape(scan_polars)
    assert Doc(read_pandas).arguments == Doc(read_arrow).arguments
    assert Doc(scan_polars).arguments.items() <= Doc(read_arrow).arguments.items()


class Recorded:
    """Stands for an async client, and keeps what it was made with."""

    made: dict[str, Any]
    topics: tuple[str, ...]

    def __init__(self, bootstrap: object, *topics: str, **options: Any) -> None:
        type(self).topics, type(self).made = topics, {"bootstrap": bootstrap, **options}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def close(self, **_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("plain", "place"),
    [
        (blocking.Admin, "raftlog.client.Admin"),
        (blocking.Consumer, "raftlog.blocking.consumer.SteppedConsumer"),
        (blocking.Producer, "raftlog.blocking.producer.QueueingProducer"),
    ],
)
def test_every_option_is_passed_on(monkeypatch: pytest.MonkeyPatch, plain: Any, place: str):
    monkeypatch.setattr(place, Recorded)
    options = {p.name: object() for p in parameters(plain.__init__).values() if p.kind is not Parameter.VAR_POSITIONAL}
    bootstrap = options.pop("bootstrap")
    topics = ("one", "two") if plain is blocking.Consumer else ()
    with plain(bootstrap, *topics, **options):
        pass
    callbacks = {"on_assigned", "on_revoked", "on_lost"} & options.keys()  # They are called by way of a thread.
    assert all(callable(Recorded.made[name]) for name in callbacks)
    expected = {"bootstrap": bootstrap, **options}
    assert Recorded.topics == topics
    assert Recorded.made.keys() == expected.keys()
    assert all(Recorded.made[name] is expected[name] for name in expected.keys() - callbacks)


@pytest.mark.parametrize("plain", [blocking.Admin, blocking.Consumer, blocking.Producer])
def test_an_unknown_option_is_named_with_the_one_that_was_meant(plain: Any):
    with pytest.raises(ConfigError, match="unknown option 'bootstrap_servers': did you mean bootstrap"):
        plain(bootstrap_servers="http://127.0.0.1:9400")
