"""What requests may take, and how answers are written: the parts that need no listener."""

from __future__ import annotations

import pytest

from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.serving.limits import MAX_JSON_BYTES, RequestLimits
from raftlog.transport import socket_writer


def test_json_is_smaller_than_batches_may_be():
    limits = RequestLimits(max_body_bytes=64 << 20)
    limits.require_size(MAX_JSON_BYTES + 1, json=False)
    with pytest.raises(InvalidRequestError) as refused:
        limits.require_size(MAX_JSON_BYTES + 1, json=True)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert refused.value.details["max_request_bytes"] == MAX_JSON_BYTES


@pytest.mark.parametrize("written", range(7))
def test_what_a_socket_has_not_taken_is_left(written: int):
    content = b"abcdef"
    pieces = [memoryview(content[:1]), memoryview(content[1:4]), memoryview(content[4:])]
    assert b"".join(socket_writer._after(pieces, written)) == content[written:]
