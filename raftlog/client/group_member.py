"""A group member's background task: heartbeats to the coordinator, and the poll timeout."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from raftlog import transport
from raftlog.client.coordinator_link import ANSWER_MARGIN_MS, CoordinatorLink
from raftlog.client.core.backoff import backoff_ms
from raftlog.client.core.membership import Membership
from raftlog.client.keepalive import HeartbeatSnapshot, KeepAlive
from raftlog.client.unexpected import explained
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, RaftlogError, RetriableError, UnreachableError
from raftlog.runtime import Tasks, close_all
from raftlog.wire import paths
from raftlog.wire.groups import GroupHeartbeatResponse

_log = logging.getLogger(__name__)
LEAVE_TIMEOUT_MS = 3_000


class GroupMember:
    """Keeps the membership alive, and leaves the group when the application exceeds `max_poll_interval_ms`.

    Args:
        on_change: called when the consumer must reconcile its partitions, or handle an error.
    """

    def __init__(
        self,
        link: CoordinatorLink,
        membership: Membership,
        *,
        max_poll_interval_ms: int,
        on_change: Callable[[], None],
    ) -> None:
        self.membership = membership
        self.link = link
        self._max_poll_interval_s = max_poll_interval_ms / 1000
        self._on_change = on_change
        self._polling = 0
        self._polled_at = 0.0
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._keepalive = KeepAlive(link.key, link.session)
        self._refused = 0
        """Consecutive refusals, for the backoff of a member that rejoins again and again."""
        self._refusal: RaftlogError | None = None
        """The error of the last failed heartbeat."""
        self._join_in_doubt = False
        """Whether the coordinator may have a join that it has not answered."""
        self._tasks = Tasks("group member")

    async def start(self, *, timeout_ms: int) -> None:
        """Join; return once the coordinator has answered. A static member waits until no other one has its instance id.

        Raises:
            RetriableError: no coordinator answered within `timeout_ms`.
            InvalidRequestError: the member was closed meanwhile.
            RaftlogError: the coordinator refused this member.
        """
        self._polled_at = asyncio.get_running_loop().time()
        heartbeats = self._tasks.spawn(self._run(), name="heartbeats")
        try:
            while self._joining:
                await self._joined(timeout_ms / 1000)
            if self.membership.phase == "joining":
                raise InvalidRequestError("this consumer was closed while it joined its group")
            self.raise_failure()
        except BaseException as error:
            heartbeats.cancel()  # A retry starts another task; two of them would fence each other.
            await asyncio.wait([heartbeats])
            if not isinstance(error, TimeoutError):
                raise
            why = self._refusal.message if self._refusal is not None else "it does not answer"
            raise RetriableError(
                f"cannot join group {self.link.key!r} within {timeout_ms} ms: {why}",
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ) from self._refusal

    @property
    def _joining(self) -> bool:
        return self.membership.phase == "joining" and not self._tasks.closed

    async def _joined(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while self._joining:
                    await self.changed()
        except TimeoutError:
            if self._refusal is None or self._refusal.code is not ErrorCode.UNRELEASED_INSTANCE_ID:
                raise

    async def close(self, *, for_good: bool = False) -> None:
        """Stop the heartbeats and leave the group; if the coordinator does not answer, the session times out."""
        try:
            await close_all(self._tasks.close, self._end_keepalive, partial(self._leave_group, for_good=for_good))
        finally:
            self._changed.set()

    async def _leave_group(self, *, for_good: bool) -> None:
        if self._may_be_member:
            await self._send_leave(for_good=for_good)

    @property
    def _may_be_member(self) -> bool:
        """Whether the coordinator may count this as a member: without a leave it would do so for a session."""
        return self.membership.phase == "member" or (self.membership.phase == "joining" and self._join_in_doubt)

    async def _end_keepalive(self) -> None:
        self._keepalive.beat(None)
        try:
            await asyncio.to_thread(self._keepalive.close)
        except RuntimeError:  # The interpreter shuts down and starts no threads.
            self._keepalive.close()

    def begin_poll(self) -> None:
        """Note that a call for records began."""
        self._polling += 1

    def end_poll(self) -> None:
        """Note that the call returned: the application processes records."""
        self._polling -= 1
        self.note_poll()

    def note_poll(self) -> None:
        """Restart the poll interval."""
        self._polled_at = asyncio.get_running_loop().time()

    def heartbeat_now(self) -> None:
        """Send the next heartbeat now."""
        self._wake.set()

    def raise_failure(self) -> None:
        """Raise the error of a membership that failed for good."""
        if self.membership.phase == "failed":
            assert self.membership.error is not None
            raise self.membership.error.with_traceback(None)  # It is raised again and again.

    async def changed(self) -> None:
        """Wait until the membership changes."""
        self._changed.clear()
        await self._changed.wait()

    async def _run(self) -> None:
        attempt = 0
        while self.membership.phase != "failed":
            if self.membership.phase == "lost":
                self._keepalive.beat(None)
                await self._wait(None)
                continue
            try:
                if self._time_to_poll_s() <= 0:
                    await self._leave()
                    continue
                self._update_keepalive()
                attempt = 0 if await self._beat() else attempt
                self._update_keepalive()
            except Exception as error:  # noqa: BLE001  (the callers that wait get it)
                attempt += 1
                await self._on_error(explained(error, f"group {self.link.key}: a heartbeat"), attempt)

    async def _beat(self) -> bool:
        """Send one heartbeat and wait until the next is due; return whether it was answered."""
        loop = asyncio.get_running_loop()
        started, request = loop.time(), self.membership.request()
        was_in_doubt = self._join_in_doubt
        self._join_in_doubt = was_in_doubt or self.membership.phase == "joining"
        self._wake.clear()
        call = asyncio.ensure_future(
            self.link.call(
                GroupHeartbeatResponse,
                "POST",
                paths.GROUP_HEARTBEAT,
                timeout_ms=request.max_wait_ms + ANSWER_MARGIN_MS,
                message=request,
            )
        )
        try:
            if not await self._answered(call, may_interrupt=request.max_wait_ms > 0):
                return False
            response = await call
        except (UnreachableError, InvalidRequestError):  # This attempt joined no group; an earlier one may have.
            self._join_in_doubt = was_in_doubt
            raise
        finally:
            call.cancel()
            await asyncio.wait([call])  # Not `await call`: its cancellation could not be told from that of this task.
            if not call.cancelled():
                call.exception()  # It is noted where the response is awaited.
        self._join_in_doubt = False
        if self.membership.on_response(response):
            self._notify()
            return True
        self._refused = 0
        if (rest_s := self.membership.interval_ms / 1000 - (loop.time() - started)) > 0:
            await self._wait(rest_s)
        return True

    def _update_keepalive(self) -> None:
        """Hand the current heartbeat to the keepalive thread."""
        request = self.membership.keepalive_request()
        if request is None:
            self._keepalive.beat(None)
            return
        coordinator, brokers = self.link.routes()
        poll_by_s = time.monotonic() + self._time_to_poll_s()
        interval_s = self.membership.interval_ms / 1000
        self._keepalive.beat(HeartbeatSnapshot(request, interval_s, poll_by_s, coordinator, brokers))

    async def _answered(self, call: asyncio.Future[GroupHeartbeatResponse], *, may_interrupt: bool) -> bool:
        """Wait for a response. A held heartbeat is abandoned when another one must be sent."""
        wake = asyncio.ensure_future(self._wake.wait())
        try:
            awaited: list[asyncio.Future[Any]] = [call, wake] if may_interrupt else [call]
            await asyncio.wait(
                awaited,
                timeout=max(0.0, self._time_to_poll_s()),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            wake.cancel()
        return call.done()

    async def _on_error(self, error: RaftlogError, attempt: int) -> None:
        self._refusal = error
        # An earlier process has the instance id until its session times out.
        is_taken = error.code is ErrorCode.UNRELEASED_INSTANCE_ID
        # A proxy's page says nothing of the group.
        if error.retriable or is_taken or isinstance(error, transport.PeerAnswerError):
            if attempt % 10 == 3 or (is_taken and attempt == 1):
                _log.warning("group %s: heartbeats fail: %s", self.link.key, error.message)
            await self._wait(backoff_ms(attempt, jitter=random.random()) / 1000)  # noqa: S311
            return
        _log.warning("group %s: %s: %s", self.link.key, error.code, error.message)
        self.membership.on_refusal(error)
        self._notify()
        self._refused += 1
        if self._refused > 1:
            await asyncio.sleep(backoff_ms(self._refused, jitter=random.random()) / 1000)  # noqa: S311

    async def _leave(self) -> None:
        """Leave the group: the application exceeded `max_poll_interval_ms`."""
        error = FencedError(
            f"group {self.link.key!r}: the application did not ask for records within max_poll_interval_ms "
            f"({int(self._max_poll_interval_s * 1000)} ms), so other members get the partitions; process less between "
            "two calls, or raise max_poll_interval_ms",
            code=ErrorCode.UNKNOWN_MEMBER_ID,
        )
        _log.warning("%s", error.message)
        may_be_member = self._may_be_member
        self.membership.lose(error)
        self._join_in_doubt = False
        self._notify()
        if may_be_member:
            await self._send_leave(for_good=True)

    async def _send_leave(self, *, for_good: bool) -> None:
        message = self.membership.leave_request(for_good=for_good)
        try:
            await self.link.persist(
                GroupHeartbeatResponse,
                "POST",
                paths.GROUP_HEARTBEAT,
                timeout_ms=LEAVE_TIMEOUT_MS,
                message=lambda: message,
            )
        except RaftlogError as error:
            _log.info("group %s: the coordinator did not confirm the leave: %s", self.link.key, error.message)

    def _time_to_poll_s(self) -> float:
        """Return the seconds until the poll deadline."""
        if self._polling:
            return self._max_poll_interval_s
        return self._polled_at + self._max_poll_interval_s - asyncio.get_running_loop().time()

    async def _wait(self, seconds: float | None) -> None:
        """Wait until a heartbeat must be sent, or the time passes."""
        if seconds is not None:
            seconds = min(seconds, max(0.0, self._time_to_poll_s()))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _notify(self) -> None:
        self._changed.set()
        self._on_change()
