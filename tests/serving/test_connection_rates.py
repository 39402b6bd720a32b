"""How often connections may begin: in all and from one address, by a simulated clock."""

from __future__ import annotations

import pytest

from raftlog.errors import OverloadedError
from raftlog.serving.connection_rates import MAX_WAIT_S, ConnectionRates


class Listener:
    """Connections of some addresses, each as soon as it may."""

    def __init__(self, *, total: float | None = None, per_address: float | None = None) -> None:
        self.now = 0.0
        self.delays: list[float] = []
        self.refused = 0
        self.rates = ConnectionRates(on_delay=self.delays.append, on_refused=self._refused, now=lambda: self.now)
        self.rates.limit(total=total, per_address=per_address)

    def _refused(self) -> None:
        self.refused += 1

    def begun(self, seconds: float, addresses: list[str], *, per_second: int) -> dict[str, int]:
        begun = dict.fromkeys(addresses, 0)
        for tick in range(int(seconds * per_second)):
            self.now = tick / per_second
            for address in addresses:
                try:
                    begun[address] += self.now + self.rates.enter(address) <= seconds
                except OverloadedError:
                    continue
        return begun


def test_without_limits_nothing_waits():
    assert Listener().begun(1, ["a"], per_second=1_000) == {"a": 1_000}


def test_one_address_gets_its_rate_and_another_its_own():
    listener = Listener(per_address=10)
    found = listener.begun(10, ["a", "b"], per_second=100)
    assert all(count == pytest.approx(100, abs=10) for count in found.values())
    assert listener.refused > 0
    assert listener.delays
    assert max(listener.delays) <= MAX_WAIT_S


def test_all_addresses_share_the_rate_of_the_listener():
    found = Listener(total=20).begun(10, ["a", "b", "c"], per_second=50)
    assert sum(found.values()) == pytest.approx(200, abs=20)


def test_the_error_says_what_to_do():
    listener = Listener(per_address=0.1)
    listener.rates.enter("a")
    with pytest.raises(
        OverloadedError, match=r"a must wait 9\.5 s: keep connections open, or raise max_connection_rate"
    ):
        listener.rates.enter("a")


def test_many_addresses_take_bounded_memory():
    listener = Listener(per_address=0.5)
    for number in range(30_000):
        try:
            listener.rates.enter(f"11.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        except OverloadedError:
            continue
    assert len(listener.rates._by_address) <= 10_001
    assert listener.refused > 10_000  # They share one rate.
    listener.now = 1_000.0
    assert listener.rates.enter("12.0.0.1") == 0
    assert len(listener.rates._by_address) == 1


def test_changes_take_effect_at_once():
    listener = Listener(per_address=0.1)
    listener.rates.enter("a")
    with pytest.raises(OverloadedError):
        listener.rates.enter("a")
    listener.rates.limit(total=None, per_address=None)
    assert listener.rates.enter("a") == 0
    listener.rates.limit(total=5, per_address=1_000)
    assert max(listener.rates.enter("a") for _ in range(8)) > 0.5
    listener.rates.limit(total=5_000, per_address=1_000)
    assert listener.rates.enter("a") < 0.5
