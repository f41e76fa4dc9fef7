"""One client's connection: requests in, answers out in the order in which they were asked.

A request is handled as soon as its frame is complete, and what can be answered at once costs no task: the answers of
one read leave in one write. While an answer waits, later Produce requests behind a waiting Produce are still
appended, within bounds; anything else waits its turn, as in Kafka, so that a client may rely on the order of effects.
A client that does not read its answers is not read from, nor is one that has exceeded a quota until its time is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from ottla.base import Offload, WireError
from ottla.broker.requests.answer_memory import AnswerMemory, Turn, may_be_large
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.file_part import FilePart
from ottla.broker.requests.line_rate import LineRate
from ottla.broker.requests.outbound import Outbound
from ottla.net import FrameProtocol

__all__ = ["Connection", "Pending", "QuickRequests", "RequestSink"]

log = logging.getLogger(__name__)
log.addFilter(LineRate())

WAITING_REQUESTS_MAX: Final = 64
"""Requests of one connection whose answers may wait at once; clients allow themselves five by default."""
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of the requests whose answers wait; one request may be larger, and is then alone."""
GATHERED_BYTES_MAX: Final = 256 * 1024
"""Answers to the requests of one read are sent together up to this size; then the client has to take some."""
PRODUCE_KEY: Final[bytes] = b"\x00\x00"
"""How the frame of a Produce request begins."""


class Pending:
    """The place of an answer that is not there yet, in the order of answers.

    `pipelines` is True for a Produce whose records are appended and which waits for their replication only: another
    Produce may be appended behind it.
    """

    __slots__ = ("frame", "give_up", "has_files", "parts", "pipelines", "request_bytes", "task")

    def __init__(self, request_bytes: int, *, pipelines: bool, has_files: bool = False) -> None:
        self.request_bytes = request_bytes
        self.pipelines = pipelines
        self.has_files = has_files
        self.parts: Sequence[Any] | None = None
        self.frame: memoryview | None = None
        """The request itself, where it is handled only once its place is the first."""
        self.task: asyncio.Future[Any] | None = None
        self.give_up: Callable[[], None] | None = None
        """Tells whoever works on the answer that its client is gone."""


class RequestSink(Protocol):
    """The router, or who asks clients for their login before it, as connections see them."""

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Handle one request: call `answer`, `wait_for` or `close` on the connection."""
        ...

    def held_back(self, frame: memoryview, seconds: float) -> None:
        """Called with how long a request had to let earlier answers leave first."""
        ...

    def opened(self, connection: Connection) -> bool:
        """Count a new connection; False refuses it."""
        ...

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        ...


class QuickRequests(Protocol):
    """Requests of one connection that are taken together; `taken` says how many wait for `finish`."""

    taken: int

    def take(self, connection: Connection, frame: memoryview) -> bool:
        """Keep a request for `finish`; False where it has to be handled by itself."""
        ...

    def finish(self, connection: Connection) -> None:
        """Answer what was taken, in order."""
        ...

    def learn(self, frame: memoryview, version: int, position: int, request: Any, client_id: str) -> None:
        """Look at a request that was handled by itself, and whose body is at `position`."""
        ...


class Connection:
    """Receives one client's frames and keeps its answers in order."""

    __slots__ = (
        "_behind",
        "_blocking",
        "_has_files",
        "_held",
        "_held_since_s",
        "_loop",
        "_memory",
        "_muted",
        "_muted_until_s",
        "_offload",
        "_out",
        "_out_bytes",
        "_pending",
        "_reading_batch",
        "_router",
        "_scratch",
        "_turn",
        "_waiting_bytes",
        "admits",
        "client_id",
        "client_id_bytes",
        "connected",
        "frames",
        "has_room",
        "is_closed",
        "last_active_s",
        "muted_client",
        "outbound",
        "quick",
        "received_bytes",
        "sent_bytes",
    )
    frames: FrameProtocol
    outbound: Outbound
    connected: Connected

    def __init__(
        self,
        router: RequestSink,
        listener: str,
        *,
        is_controller: bool = False,
        loop: asyncio.AbstractEventLoop,
        offload: Offload,
        memory: AnswerMemory,
        scratch: memoryview | None = None,
    ) -> None:
        self._router = router
        self._behind: RequestSink | None = None
        """To whom the one who handles the requests passes on what is no part of a login."""
        self.admits: Callable[[], bool] | None = None
        """Asked before requests are taken past that one, where there is one; False where they are for him."""
        self._scratch = scratch
        self._memory = memory
        self.has_room = False
        """True while a request is handled that has waited for room for its answer."""
        self._turn: Turn | None = None
        """The place in the queue of those that wait for room for their answers."""
        self._loop = loop
        self._offload = offload
        self.connected = Connected(listener=listener, is_controller=is_controller)
        self.client_id: str | None = None
        self.client_id_bytes = b""
        self.is_closed = False
        self.last_active_s = loop.time()
        self._pending: deque[Pending] = deque()
        self._blocking = 0
        self._waiting_bytes = 0
        self._held: memoryview | None = None
        self._held_since_s = 0.0
        self._muted: asyncio.TimerHandle | None = None
        self._muted_until_s = 0.0
        self.muted_client: tuple[str, str] | None = None
        """The user and client id by whose quota nothing is read; None where it is not by a client's quota."""
        self.received_bytes = 0
        self.sent_bytes = 0
        self._out: list[Any] = []
        self._out_bytes = 0
        self._has_files = False
        self._reading_batch = False
        self.quick: QuickRequests | None = None
        """Set by who handles the requests, and gone where another does, or where it is somebody else who asks."""

    # -- FrameReceiver

    def connection_opened(self, frames: FrameProtocol) -> None:
        """Learn who is there; refuse where there are too many."""
        self.frames = frames
        transport = frames.transport
        peer = transport.get_extra_info("peername") or ("", 0)
        self.outbound = Outbound(
            transport,
            loop=self._loop,
            offload=self._offload,
            memory=self._memory,
            drained=self._drained,
            scratch=self._scratch,
        )
        self.connected = Connected(
            listener=self.connected.listener,
            client_host=str(peer[0]),
            client_port=int(peer[1]),
            is_controller=self.connected.is_controller,
        )
        if not self._router.opened(self):
            self.close()

    def frame_received(self, frame: memoryview) -> None:
        """Handle a request now, or hold it back until those before it are answered."""
        self._reading_batch = True
        self.received_bytes += len(frame)
        quick = self.quick
        if quick is not None:
            if (not self._pending or self._may_pipeline(frame)) and quick.take(self, frame):
                return
            if quick.taken:
                quick.finish(self)
                if self.is_closed:
                    return
        if self._pending and not self._may_pipeline(frame):
            self._hold(frame)
        elif self._memory.is_full and self._waits_for_room(frame):
            self._hold(frame)
            self._turn = self._memory.wait(self._has_room)
        else:
            self._router.handle(self, frame)

    def batch_ended(self) -> None:
        """Write what one read's requests were answered."""
        self._finish_quick()
        self._reading_batch = False
        self.last_active_s = self._loop.time()
        if self._out:
            self._flush()

    def frame_refused(self, error: WireError) -> None:
        """Say once why the connection closes, and send what was answered before."""
        self._finish_quick()
        self.complain(error)
        self._flush()

    def writing_paused(self) -> None:
        """Read nothing more from a client that does not read."""
        self.outbound.pause()
        self.frames.pause_reading()

    def writing_resumed(self) -> None:
        """Go on where the client has read enough."""
        self.outbound.resume()

    def connection_closed(self, error: Exception | None) -> None:
        """Drop what nobody will read; requests already appended stay appended."""
        self.is_closed = True
        self._held = None
        if self._muted is not None:
            self._muted.cancel()
        if self._turn is not None:
            self._memory.give_up(self._turn)
        for each in self._pending:
            if each.task is not None:
                each.task.cancel()
            if each.give_up is not None:
                each.give_up()
        self._pending.clear()
        self._out.clear()
        self.outbound.drop()
        self._router.closed(self)

    # -- for whoever handles its requests

    def hand_over(self, router: RequestSink) -> None:
        """Have another handle the requests from now on, and hear that the connection is closed."""
        self._router = router
        self._behind = self.admits = None
        self.quick = None

    def handle(self, frame: memoryview) -> None:
        """Handle a request that was taken to be handled with others: after those before it that still wait.

        Its place is kept, since requests after it may have been answered already.
        """
        if not self._pending or self._may_pipeline(frame):
            self._router.handle(self, frame)
            return
        place = Pending(len(frame), pipelines=False)
        place.frame = self.frames.hold(frame)
        self.wait_for(place)

    def is_served_by(self, router: RequestSink) -> bool:
        """Return whether this handles the requests, or whoever does passes them on to it while `admits` says so."""
        return self._router is router or self._behind is router

    def logged_in(self, principal: str, *, by_token: bool) -> None:
        """Take in who it is."""
        self.connected = replace(self.connected, principal=principal, token_authenticated=by_token)
        self.quick = None

    def pass_on(self, router: RequestSink, admits: Callable[[], bool]) -> None:
        """Let requests be taken quickly that would be passed on to this router, as long as they are admitted."""
        self._behind, self.admits = router, admits

    @property
    def is_busy(self) -> bool:
        """True while an answer is waited for: such a connection is not idle, unlike one that does not read."""
        return bool(self._pending)

    def active_s(self) -> float:
        """Return when a request last came or something of an answer was taken, in the loop's time."""
        self.outbound.recount()
        return max(self.last_active_s, self.outbound.moved_s)

    def answer(self, parts: Sequence[Any], *, has_files: bool = False) -> None:
        """Send an answer, or queue it behind those that still wait; parts are bytes or `FilePart`s."""
        if self._pending:
            place = Pending(0, pipelines=True, has_files=has_files)
            place.parts = parts
            self._pending.append(place)
            return
        for part in parts:
            size = len(part)
            self._out.append(part)
            self._out_bytes += size
            self.sent_bytes += size
        if has_files:
            self._has_files = True
        if self._out_bytes > GATHERED_BYTES_MAX or not self._reading_batch:
            self._flush()

    def answer_now(self, memory: memoryview) -> None:
        """Send an answer that lies in memory which is the caller's again when this returns."""
        if self._pending:
            self.answer((bytes(memory),))
            return
        if self._out:
            self._flush()
        self.sent_bytes += len(memory)
        self.outbound.send_now(memory)
        if not self.outbound.is_idle:
            self.frames.pause_reading()

    def answer_part(self, head: bytes, part: FilePart, tail: bytes) -> None:
        """Send an answer that is a part of a file, and what stands around it."""
        if self._pending:
            self.answer((head, part, tail), has_files=True)
            return
        if self._out:
            self._flush()
        self.sent_bytes += len(head) + part.size + len(tail)
        self.outbound.send_part(head, part, tail)
        if not self.outbound.is_idle:
            self.frames.pause_reading()

    def wait_for(self, place: Pending) -> None:
        """Keep a place in the order for an answer that comes later through `settle`."""
        self._pending.append(place)
        self._waiting_bytes += place.request_bytes
        if not place.pipelines:
            self._blocking += 1

    def settle(self, place: Pending, parts: Sequence[Any], *, has_files: bool = False) -> None:
        """Fill a place; send whatever is now at the head of the order."""
        if self.is_closed:
            return
        place.parts = parts
        place.has_files = has_files
        place.task = None
        self._gather_answers()
        if not self._reading_batch:
            self.last_active_s = self._loop.time()
            self._flush()
            self._go_on()

    def mute(self, milliseconds: int, client: tuple[str, str] | None = None) -> None:
        """Read nothing more for so long; what was answered leaves all the same (KIP-219).

        `client` is whose quota has been exceeded, its user and client id, where it is one that may be changed meanwhile.
        """
        if self.is_closed:
            return
        until_s = self._loop.time() + milliseconds / 1000
        if self._muted is not None:
            if self._muted_until_s >= until_s:
                return
            self._muted.cancel()
        self._muted = self._loop.call_at(until_s, self._unmute)
        self._muted_until_s = until_s
        self.muted_client = client
        self.frames.pause_reading()

    def mute_at_most(self, milliseconds: int) -> None:
        """Where nothing is read, read again after so long at the latest: what the client had exceeded holds no more."""
        until_s = self._loop.time() + milliseconds / 1000
        if self._muted is None or self.is_closed or until_s >= self._muted_until_s:
            return
        self._muted.cancel()
        self._muted = self._loop.call_at(until_s, self._unmute)
        self._muted_until_s = until_s

    def complain(self, error: Exception | str) -> None:
        """Log the one line that a bad peer costs."""
        peer = self.connected
        log.warning(
            "Closing the connection of %s:%s on %s: %s", peer.client_host, peer.client_port, peer.listener, error
        )

    def close(self) -> None:
        """Stop reading, send what was answered, then close."""
        if self.is_closed:
            return
        if self._out:
            self._flush()
        self.is_closed = True
        self.frames.pause_reading()
        if self.outbound.is_idle:
            self.frames.close()
        else:
            self.outbound.close_when_sent(self.frames.close)

    # -- inside

    def _finish_quick(self) -> None:
        """Answer the requests that were taken together: their order is that of their effects."""
        if self.quick is not None and self.quick.taken:
            self.quick.finish(self)

    def _gather_answers(self) -> None:
        """Move the answers at the head of the order that are there to what is sent next."""
        pending = self._pending
        while pending and (ready := pending[0].parts) is not None:
            first = pending.popleft()
            self._forget(first)
            for part in ready:
                self._out.append(part)
                self.sent_bytes += len(part)
            self._has_files |= first.has_files

    def _forget(self, place: Pending) -> None:
        self._waiting_bytes -= place.request_bytes
        if not place.pipelines:
            self._blocking -= 1

    def _may_pipeline(self, frame: memoryview) -> bool:
        """Return whether a request may be handled while answers wait: Produce behind Produce, within bounds."""
        return (
            self._blocking == 0
            and frame[:2] == PRODUCE_KEY
            and len(self._pending) < WAITING_REQUESTS_MAX
            and self._waiting_bytes + len(frame) <= WAITING_BYTES_MAX
        )

    def _hold(self, frame: memoryview) -> None:
        self._held = self.frames.hold(frame)
        self._held_since_s = self._loop.time()
        self.frames.pause_reading()

    def _waits_for_room(self, frame: memoryview) -> bool:
        """Return whether a request's answer may be so large that it waits where the node holds too many already."""
        return not self.connected.is_controller and may_be_large(frame)

    def _has_room(self) -> None:
        """It is this connection's turn."""
        self._turn = None
        if not self.is_closed:
            self._go_on(has_room=True)

    def _flush(self) -> None:
        out = self._out
        if not out or self.is_closed:
            return
        self._out = []
        self._out_bytes = 0
        self.outbound.send(out, has_files=self._has_files)
        self._has_files = False
        if not self.outbound.is_idle:
            self.frames.pause_reading()

    def _drained(self) -> None:
        """Everything was taken by the transport: read on."""
        self.last_active_s = self._loop.time()
        if not self.is_closed:
            self._go_on()

    def _unmute(self) -> None:
        self._muted = self.muted_client = None
        self.last_active_s = self._loop.time()
        if not self.is_closed:
            self._go_on()

    def _go_on(self, *, has_room: bool = False) -> None:
        """Handle the requests that were held back, then read on, where nothing stands against it."""
        while not self._must_wait() and self._pending and (frame := self._pending[0].frame) is not None:
            self._handle_in_its_place(frame)
        while self._held is not None:
            if self._must_wait() or self._turn is not None:
                return
            if self._pending and not self._may_pipeline(self._held):
                return
            if self._memory.is_full and not has_room and self._waits_for_room(self._held):
                self._turn = self._memory.wait(self._has_room)
                return
            self.has_room, has_room = has_room, False
            held, self._held = self._held, None
            self._router.held_back(held, self._loop.time() - self._held_since_s)
            self._handle_now(held)
            self.has_room = False
        if not self._must_wait():
            self.frames.resume_reading()

    def _must_wait(self) -> bool:
        """Return whether nothing is handled now: by a quota, or since the client does not take its answers."""
        return self._muted is not None or self.is_closed or not self.outbound.is_idle

    def _handle_in_its_place(self, frame: memoryview) -> None:
        """Handle the request whose place is the first: its answer stands before those that wait after it."""
        self._forget(self._pending.popleft())
        after, self._pending = self._pending, deque()
        self._handle_now(frame)
        self._pending.extend(after)
        self._gather_answers()
        self._flush()

    def _handle_now(self, frame: memoryview) -> None:
        self.frames.let_go(len(frame))
        self._reading_batch = True
        self._router.handle(self, frame)
        self._reading_batch = False
        self._flush()
