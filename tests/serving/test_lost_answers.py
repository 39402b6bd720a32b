"""An answer for which there is no memory: a request that only reads may be sent again, any other may have happened."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from raftlog.errors import OverloadedError, RaftlogError, UnknownOutcomeError
from raftlog.serving.admission import Admission
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.responses import PIECE_BYTES
from raftlog.serving.turnstile import Turnstile

SPACE = 1 << 20


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("GET", OverloadedError),
        ("HEAD", OverloadedError),
        ("POST", UnknownOutcomeError),
        ("DELETE", UnknownOutcomeError),
    ],
)
async def test_nothing_was_done_is_said_only_of_reads(method: str, error: type[RaftlogError]):
    """A client repeated 2,500 records that had been appended, because the answer said that nothing was done."""
    inflight, handled = InflightLimits(max_requests=10, max_bytes=SPACE), list[str]()
    admission = Admission(inflight, RequestLimits(max_body_bytes=1_000), Turnstile())

    async def handler(request: web.Request) -> web.Response:
        handled.append(request.method)
        return web.Response(body=bytes(PIECE_BYTES + 1))

    inflight.hold_answer(SPACE)  # Slow readers have all of it.
    with pytest.raises(error) as raised:
        await admission.middleware(make_mocked_request(method, "/v1/topics/t/records"), handler)
    assert type(raised.value) is error
    assert handled == [method]
    inflight.release_answer(SPACE)
    assert (await admission.middleware(make_mocked_request(method, "/v1/topics/t/records"), handler)).status == 200
