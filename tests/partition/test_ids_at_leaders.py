"""Producer ids at leaders: which of them may append."""

from __future__ import annotations

from pathlib import Path

import pytest
from replica_support import Solo

from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.wire.producer_ids import shuffled

KEY = b"k" * 16
MINE, TRANSACTIONAL = (shuffled(KEY, 5, transactional=transactional) for transactional in (False, True))


async def test_an_id_is_looked_up_once_and_nothing_is_appended_under_an_unallocated_one(tmp_path: Path):
    asked: list[int] = []

    async def require_given(producer_id: int) -> None:
        asked.append(producer_id)
        if producer_id != MINE:
            raise InvalidRequestError("not given", code=ErrorCode.UNKNOWN_PRODUCER_ID)

    solo = Solo(tmp_path, require_given=require_given)
    with pytest.raises(InvalidRequestError, match="not given"):
        await solo.append("x", acks=1, producer_id=7, producer_epoch=0, base_sequence=0)
    assert solo.replica.log.log_end_offset == 0
    for sequence in range(3):
        await solo.append("x", acks=1, producer_id=MINE, producer_epoch=0, base_sequence=sequence)
    await solo.append("x", acks=1)
    assert (asked, solo.replica.log.log_end_offset) == ([7, MINE], 4)
    await solo.close()


async def test_ids_of_coordinators_take_no_batches_outside_of_transactions(tmp_path: Path):
    solo = Solo(tmp_path)
    with pytest.raises(InvalidRequestError, match="expected a transactional batch") as refused:
        await solo.append("x", acks=1, producer_id=TRANSACTIONAL, producer_epoch=32_767, base_sequence=0)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    assert (len(solo.replica.producers), solo.replica.log.log_end_offset) == (0, 0)
    await solo.close()
