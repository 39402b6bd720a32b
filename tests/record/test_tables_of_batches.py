"""Several batches become one table exactly when each alone becomes rows, and the error is that of the batch alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ordinary_batches import BATCHES, SHAPES

from fuzz.batches import changes, mutated
from raftlog.errors import CorruptBatchError
from raftlog.record import HEADER_BYTES, iter_batches, parse_header, stamp, to_arrow, to_arrow_with_offsets, to_table


def log_of(shapes: list[str]) -> list[bytearray]:
    """Return batches of contiguous offsets."""
    batches, offset = [], 0
    for shape in shapes:
        batch = bytearray(BATCHES[shape])
        stamp(batch, base_offset=offset, leader_epoch=3)
        offset += len(SHAPES[shape])
        batches.append(batch)
    return batches


def refusal(batch: bytearray) -> str | None:
    try:
        to_arrow(parse_header(batch), batch)
    except CorruptBatchError as error:
        return str(error)
    return None


def require_same(batches: list[bytearray], from_offset: int = 0) -> None:
    expected = next(filter(None, map(refusal, batches)), None)
    log = b"".join(batches)
    if expected is not None:
        with pytest.raises(CorruptBatchError) as raised:
            to_table(iter_batches(log), from_offset=from_offset)
        assert str(raised.value) == expected
        return
    table = to_table(iter_batches(log), from_offset=from_offset)
    table.validate(full=True)
    alone = [to_arrow_with_offsets(*each, from_offset=from_offset) for each in iter_batches(log)]
    assert table.equals(pa.Table.from_batches(alone))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_damaged_batch_among_others_is_refused_as_it_is_alone(shape: str) -> None:
    batches = log_of([shape] * 3)
    require_same(batches)
    refused = 0
    for at in range(HEADER_BYTES, len(batches[0]), 5):
        damaged = at % 3
        sound = batches[damaged][at]
        batches[damaged][at] ^= 0x80
        refused += refusal(batches[damaged]) is not None
        require_same(batches)
        batches[damaged][at] = sound
    assert refused > 20


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_batches_of_different_shapes_are_refused_as_each_is_alone(data: st.DataObject) -> None:
    shapes = data.draw(st.lists(st.sampled_from(list(SHAPES)), min_size=1, max_size=4))
    batches = log_of(shapes)
    which = data.draw(st.integers(0, len(batches) - 1))
    changed = mutated(bytes(batches[which]), data.draw(st.lists(changes(), max_size=2)))
    try:
        header = parse_header(changed)
    except CorruptBatchError:
        return
    if len(changed) != len(batches[which]) or header != parse_header(batches[which]):
        return  # Another number of rows, or another place.
    batches[which] = bytearray(changed)
    require_same(batches, from_offset=data.draw(st.integers(0, len(SHAPES[shapes[0]]) - 1)))
