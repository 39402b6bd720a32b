"""Offsets of read rows: counted in windows that are shared between batches, and always each batch's own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.record.reading import _count_from

COUNTS = st.integers(1, 40) | st.integers(1_990, 2_100) | st.integers(16_000, 70_000)
STARTS = st.integers(0, 20_000) | st.integers(2**40, 2**40 + 50)


@settings(deadline=None)  # The first long one makes the numbers to add to.
@given(st.lists(st.tuples(STARTS, st.lists(COUNTS, max_size=6)), max_size=6))
def test_every_batch_gets_its_own_offsets(runs: list[tuple[int, list[int]]]):
    """Runs of batches that follow each other, from anywhere: forwards, back, and above what was counted before."""
    for start, counts in runs:
        first = start
        for count in counts:
            offsets = _count_from(first, count)
            assert (len(offsets), offsets[0].as_py(), offsets[-1].as_py()) == (count, first, first + count - 1)
            assert offsets.to_pylist() == list(range(first, first + count))
            first += count
