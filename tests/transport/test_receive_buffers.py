"""Receive buffers are used again: fresh ones cost a page fault for each 4 KiB."""

from __future__ import annotations

import inspect

import pytest

from raftlog import Consumer
from raftlog.transport.buffers import ReceiveBuffers

HEAD_BYTES = 64 << 10
"""More than the head of an answer with many partitions."""
FULL_ANSWER = inspect.signature(Consumer).parameters["fetch_max_bytes"].default + HEAD_BYTES


def test_a_consumer_that_reads_full_answers_uses_two_buffers_in_turn() -> None:
    buffers = ReceiveBuffers()
    read, used = buffers.take(FULL_ANSWER), dict[int, object]()
    for _ in range(6):
        arriving = buffers.take(FULL_ANSWER)
        used |= {id(view.obj): view.obj for view in (read, arriving)}
        read = arriving

    assert len(used) == 2
    assert buffers.held_bytes <= 40 << 20


@pytest.mark.parametrize("length", [64 << 10, 4 << 20])
def test_a_buffer_with_a_view_is_not_used_again(length: int) -> None:
    buffers = ReceiveBuffers()
    first = buffers.take(length)
    part, owner = first[10:20], id(first.obj)
    del first
    assert id(buffers.take(length).obj) != owner
    del part


def test_no_more_is_kept_than_the_limit() -> None:
    buffers = ReceiveBuffers(kept_bytes=1 << 20)
    views = [buffers.take(300 << 10) for _ in range(10)]
    assert 0 < buffers.held_bytes <= 1 << 20
    del views
