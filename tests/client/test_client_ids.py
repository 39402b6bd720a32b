"""Client ids: which are accepted, how each client takes them, and that each request carries them."""

from __future__ import annotations

import pytest

from raftlog import Admin, Consumer, Producer, blocking
from raftlog.client.connection import Connection
from raftlog.errors import ConfigError
from raftlog.model import Address
from raftlog.transport.throttles import MAX_S, Throttles
from raftlog.wire.client_ids import is_client_id

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize("text", ["a", "my-app", "team/app:1", "A b  c", "x" * 128, "spark@etl+v2", "-", "1"])
def test_client_ids(text: str):
    assert is_client_id(text)


@pytest.mark.parametrize(
    "text", ["", "*", " a", "a ", "x" * 129, "a\n", "a\r\nX: 1", "a\0", "ü", "a,b", "a*", "a" * 100_000, "\ud800", " "]
)
def test_other_texts(text: str):
    assert not is_client_id(text)


@pytest.mark.parametrize("made", [Producer, Admin, blocking.Producer, blocking.Admin])
async def test_each_client_refuses_another_text(made: type[Producer]):
    for wrong in ("*", "a\r\nX: 1", "x" * 129):
        with pytest.raises(ConfigError, match="client_id: expected 1 to 128 characters of ASCII letters"):
            made(URL, client_id=wrong)
    with pytest.raises(ConfigError, match="client_id: expected a str, received int"):
        made(URL, client_id=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("made", [Consumer, blocking.Consumer])
async def test_consumers_refuse_another_text_too(made: type[Consumer]):
    with pytest.raises(ConfigError, match="client_id: expected"):
        made(URL, "t", client_id="*")


async def test_the_environment_names_clients_that_have_no_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAFTLOG_CLIENT_ID", "from-environment")
    assert Connection(URL, timeout_ms=1).session.client_id == "from-environment"
    assert Connection(URL, timeout_ms=1, client_id="own").session.client_id == "own"
    monkeypatch.setenv("RAFTLOG_CLIENT_ID", "*")
    with pytest.raises(ConfigError, match="RAFTLOG_CLIENT_ID: expected"):
        Connection(URL, timeout_ms=1)
    monkeypatch.delenv("RAFTLOG_CLIENT_ID")
    assert Connection(URL, timeout_ms=1).session.client_id == ""


def test_a_pause_is_bounded_and_other_texts_are_none():
    throttles, broker = Throttles(), Address("a", 1)
    for text in ("", "-5", "1e9", "nan", "9" * 100, "٣", "0x10", " 5"):
        throttles.note(broker, text)
    assert (throttles.left_s(broker), throttles.count) == (0, 0)
    throttles.note(broker, "999999999")
    assert 0 < throttles.left_s(broker) <= MAX_S
    assert throttles.left_s(Address("b", 1)) == 0
    throttles.note(broker, "1")
    assert throttles.left_s(broker) > 1  # A shorter pause does not end the longer one.
    for port in range(5_000):
        throttles.note(Address("c", port), "0")
    assert len(throttles._until) <= 1_001
