"""What holds a blocking consumer: one that the application drops is collected, and its thread ends."""

from __future__ import annotations

import gc
import weakref
from typing import Any, cast

from raftlog.blocking.consumer_facade import ConsumerFacade


class Facade:
    def __init__(self) -> None:
        self._in_callbacks: set[int] = set()


def test_a_rebalance_callback_does_not_hold_the_consumer():
    facade = Facade()
    wrapped = ConsumerFacade._apart(cast("Any", facade), lambda _: None)
    dropped = weakref.ref(facade)
    del facade
    gc.collect()
    assert wrapped is not None
    assert dropped() is None
