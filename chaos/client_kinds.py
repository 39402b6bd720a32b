"""The kinds of producers under chaos, and the keys that they share."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from chaos.history import Acks
from chaos.kafka_clients import has_kcat

HOT_KEYS = 10
WRITES_OF_A_KEY = 200


@dataclass(frozen=True, slots=True)
class ClientKind:
    """How a producer sends.

    Without idempotence raftlog's is a plain HTTP client: its own library is always idempotent. kcat always is, too.
    """

    acks: Acks = "all"
    idempotent: bool = True
    library: Literal["raftlog", "confluent", "kcat"] = "raftlog"


KINDS = (
    ClientKind(),
    ClientKind(),
    ClientKind(),
    ClientKind(),
    ClientKind(idempotent=False),
    ClientKind(acks="1"),
    ClientKind(acks="1", idempotent=False),
    ClientKind(acks="0"),
)
KAFKA_KINDS = (
    ClientKind(library="confluent"),
    ClientKind(library="confluent"),
    ClientKind(library="confluent", idempotent=False),
    ClientKind(library="confluent", idempotent=False, acks="1"),
    *((ClientKind(library="kcat"), ClientKind(library="kcat")) if has_kcat() else ()),
    ClientKind(),
)


class Keys:
    """About ten hot keys. Each is used for so many writes, then another one replaces it."""

    def __init__(self, dice: random.Random, count: int = HOT_KEYS) -> None:
        self._dice = dice
        self._next = count
        self._hot = dict.fromkeys(range(count), 0)

    def draw(self) -> tuple[int, str]:
        """Return a key and a value that was not used before."""
        key = self._dice.choice(list(self._hot))
        number = self._hot[key]
        self._hot[key] += 1
        if self._hot[key] == WRITES_OF_A_KEY:
            del self._hot[key]
            self._hot[self._next] = 0
            self._next += 1
        return key, f"{key}:{number}"
