"""What a producer id looks like: which of them the cluster has given is known, and which is next is not (ADR 0019).

The controller counts the ids that it gives. A broker hands out the number of one as the cluster's key has shuffled it:
one of 2^50 places, of which the given ones fill few. Whoever has the key finds the number again, and sees whether it
was given. Ids below `FIRST` are plain numbers, from before there was a key. All of them fit into a double: JSON's
readers keep them exact.

The last bit tells what an id is for. One that a transaction coordinator gave is used in transactions alone, whose
coordinator says who may write; so nobody fences a transactional producer by a batch outside of transactions.
"""

from __future__ import annotations

from hashlib import blake2s

from raftlog.errors import InvalidRequestError
from raftlog.model import ProducerEpoch, ProducerId

FIRST: ProducerId = 1 << 52
"""Of the ids that are shuffled."""
_HALF_BITS = 25
_HALF = (1 << _HALF_BITS) - 1
_ROUNDS = 8
NUMBERS = 1 << (2 * _HALF_BITS)
KEY_BYTES = 16
MOST = {"producer_id": (1 << 63) - 1, "producer_epoch": (1 << 15) - 1}


def require_identity(producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
    """Check that a batch's header can hold what a producer is told to call itself.

    Raises:
        InvalidRequestError: a number is out of its range.
    """
    for name, value in (("producer_id", producer_id), ("producer_epoch", producer_epoch)):
        if not 0 <= value <= MOST[name]:
            raise InvalidRequestError(f"{name}: expected 0 to {MOST[name]}, received {value}")


def shuffled(key: bytes, number: int, *, transactional: bool) -> ProducerId:
    """Return the id with a number below `NUMBERS`."""
    left, right = number >> _HALF_BITS, number & _HALF
    for step in range(_ROUNDS):
        left, right = right, left ^ _mixed(key, step, right)
    return FIRST | ((left << _HALF_BITS | right) << 1) | transactional


def number_of(key: bytes, producer_id: ProducerId) -> int:
    """Return the number of an id, of any from `FIRST` on; one beyond `NUMBERS` is none that was shuffled."""
    place = (producer_id - FIRST) >> 1
    if not 0 <= place < NUMBERS:
        return NUMBERS
    left, right = place >> _HALF_BITS, place & _HALF
    for step in reversed(range(_ROUNDS)):
        left, right = right ^ _mixed(key, step, left), left
    return left << _HALF_BITS | right


def is_of_transactions(producer_id: ProducerId) -> bool:
    """Tell whether only batches of transactions may go under an id."""
    return FIRST <= producer_id < FIRST + 2 * NUMBERS and bool(producer_id & 1)


def _mixed(key: bytes, step: int, half: int) -> int:
    """Return one round of the Feistel network."""
    message = bytes((step,)) + half.to_bytes(4, "little")
    return int.from_bytes(blake2s(message, key=key, digest_size=4).digest(), "little") & _HALF
