"""The format of producer ids: a cluster can verify that it allocated an id, and ids cannot be guessed (ADR 0019).

The controller counts the ids that it allocates. A broker encrypts such a number with the cluster's key into one of 2^50
values, most of which are unused. With the key, the number is decrypted again and compared with those allocated. Ids
below `FIRST` are plain numbers, from before there was a key. All ids fit into a double, so JSON parsers keep them
exact.

The last bit is the kind of the id. Ids that a transaction coordinator allocated are valid in transactions only, so a
batch outside of transactions cannot fence a transactional producer.
"""

from __future__ import annotations

from hashlib import blake2s

from raftlog.errors import InvalidRequestError
from raftlog.model import ProducerEpoch, ProducerId

FIRST: ProducerId = 1 << 52
"""The lowest encrypted id."""
_HALF_BITS = 25
_HALF = (1 << _HALF_BITS) - 1
_ROUNDS = 8
NUMBERS = 1 << (2 * _HALF_BITS)
KEY_BYTES = 16
MOST = {"producer_id": (1 << 63) - 1, "producer_epoch": (1 << 15) - 1}


def require_identity(producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
    """Check that a producer id and epoch fit into a batch's header.

    Raises:
        InvalidRequestError: a number is out of its range.
    """
    for name, value in (("producer_id", producer_id), ("producer_epoch", producer_epoch)):
        if not 0 <= value <= MOST[name]:
            raise InvalidRequestError(f"{name}: expected 0 to {MOST[name]}, received {value}")


def shuffled(key: bytes, number: int, *, transactional: bool) -> ProducerId:
    """Return the producer id of a number below `NUMBERS`."""
    left, right = number >> _HALF_BITS, number & _HALF
    for step in range(_ROUNDS):
        left, right = right, left ^ _mixed(key, step, right)
    return FIRST | ((left << _HALF_BITS | right) << 1) | transactional


def number_of(key: bytes, producer_id: ProducerId) -> int:
    """Return the number of an id from `FIRST` on; a result of `NUMBERS` or more means that the id is not valid."""
    place = (producer_id - FIRST) >> 1
    if not 0 <= place < NUMBERS:
        return NUMBERS
    left, right = place >> _HALF_BITS, place & _HALF
    for step in reversed(range(_ROUNDS)):
        left, right = right ^ _mixed(key, step, left), left
    return left << _HALF_BITS | right


def is_of_transactions(producer_id: ProducerId) -> bool:
    """Return whether an id is valid for transactional batches only."""
    return FIRST <= producer_id < FIRST + 2 * NUMBERS and bool(producer_id & 1)


def _mixed(key: bytes, step: int, half: int) -> int:
    """Return one round of the Feistel network."""
    message = bytes((step,)) + half.to_bytes(4, "little")
    return int.from_bytes(blake2s(message, key=key, digest_size=4).digest(), "little") & _HALF
