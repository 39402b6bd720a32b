"""Values that are given together: taken at once, and divided into runs that batches have room for."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from raftlog.client.core.pending_batch import RECORD_OVERHEAD_BYTES
from raftlog.client.record_input import checked_values, in_runs

VALUES = st.lists(st.none() | st.binary(max_size=60), max_size=30)


def test_what_the_caller_does_with_its_list_afterwards_changes_nothing():
    given_values = [b"1", b"2"]
    taken = checked_values(given_values)
    given_values.clear()
    assert taken == [b"1", b"2"]
    assert checked_values((bytearray(b"1"), None)) == [b"1", None]


@given(values=VALUES, key=st.none() | st.binary(max_size=9), max_bytes=st.integers(1, 900))
def test_runs_are_as_long_as_there_is_room_for_and_leave_nothing_out(
    values: list[bytes | None], key: bytes | None, max_bytes: int
):
    def size(run: list[bytes | None]) -> int:
        return sum(RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"") for value in run)

    runs = [(list(run), counted) for run, counted in in_runs(values, key, max_bytes)]

    assert [value for run, _ in runs for value in run] == values
    assert [counted for _, counted in runs] == [size(run) for run, _ in runs]
    assert all(run and (counted <= max_bytes or len(run) == 1) for run, counted in runs)
    for (run, counted), (following, _) in pairwise(runs):
        assert counted + size(following[:1]) > max_bytes, (run, following)
