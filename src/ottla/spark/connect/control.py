"""The worker's end of the control channel: takes the connections of tasks, checks who they are, and serves them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.background import count_failure, supervise
from ottla.base import OttlaError
from ottla.connect import storage
from ottla.connect.tasks import Dial, TaskSpec, frames
from ottla.security.ephemeral import EphemeralKey

if TYPE_CHECKING:
    from ottla.http import Door

__all__ = ["Attempt", "ControlServer", "Served"]

log = logging.getLogger(__name__)

GREETING_SECONDS_MAX = 10.0
UNPROVED_MAX = 1000
"""Connections that have not proved yet which task they are; the oldest make room. A job's tasks come all at once."""

WARNS_AGAIN_S = 10.0
"""How often it is said, at most, that a stranger was there."""


class Served(Protocol):
    """What an attempt's messages go to, on the event loop."""

    def on_status(self, state: storage.State, trace: str | None) -> None:
        """Called when the task's state has changed."""
        ...

    async def on_request(self, op: str, message: Mapping[str, Any]) -> Any:
        """Return the answer to a question; raises ConnectError."""
        ...

    def on_note(self, op: str, message: Mapping[str, Any]) -> None:
        """Called when the task reports a topic, metrics or a line of the log."""
        ...


class Announced(Protocol):
    """What is to be run, as the other end is told it."""

    def to_message(self) -> dict[str, Any]:
        """Return what JSON can hold of it: all."""
        ...


Spec = TypeVar("Spec", bound=Announced)


class Attempt(Generic[Spec]):
    """One run of a task, from its announcement to its end; one connection may claim it, once."""

    def __init__(self, server: ControlServer, served: Served, spec: Spec) -> None:
        self.served, self.spec = served, spec
        self.target = spec.target if isinstance(spec, TaskSpec) else storage.TargetState.STARTED
        self.name, self.token = secrets.token_hex(frames.NAME_BYTES // 2), secrets.token_hex(32)
        self._server = server
        self._writer: asyncio.StreamWriter | None = None
        self.claimed = False
        self.lost = asyncio.Event()
        """Set when the connection that the task had has ended, with everything read that it had sent."""

    @property
    def dial(self) -> Dial:
        """Where the task connects to."""
        server = self._server
        return Dial(server.host, server.port, self.name, self.token, server.certificate)

    def aim(self, target: storage.TargetState) -> None:
        """Tell the task what it is to do; one that has not connected yet is told when it does."""
        self.target = target
        self.send({"target": target.name})

    def send(self, message: dict[str, Any]) -> None:
        """Send the task a message, if it is connected."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frames.encode(message))

    def connected(self, writer: asyncio.StreamWriter) -> None:
        """Note the connection that has proved to be this task's."""
        self._writer = writer

    def close(self) -> None:
        """End the connection; which tells the task that its worker is gone."""
        self._server.forget(self)
        if self._writer is not None:
            self._writer.close()


class ControlServer:
    """Listens for tasks on `bind`. `host` is where executors reach it: loopback for local masters.

    With `key` all that is said is encrypted. Who has not proved to be a task has `greeting_seconds_max`, is one of
    `unproved_max`, and is read `frames.GREETING.size` bytes from.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        *,
        bind: str | None = None,
        key: EphemeralKey | None = None,
        unproved_max: int = UNPROVED_MAX,
        greeting_seconds_max: float = GREETING_SECONDS_MAX,
    ) -> None:
        self.host, self.port, self._key = host, 0, key
        self._bind = bind or host
        self._unproved_max, self._greeting_seconds_max = unproved_max, greeting_seconds_max
        self._attempts: dict[str, Attempt[Any]] = {}
        self._door: Door | None = None
        self._warns_from_s = 0.0

    async def listen(self) -> None:
        """Begin to listen, on a port that the system chooses."""
        from ottla.http import Door  # with aiohttp, which only who listens needs

        key, seconds_max = self._key, self._greeting_seconds_max
        self._door = Door(
            self._arrived,
            handshake_seconds_max=seconds_max,
            first_request_seconds_max=seconds_max,
            silent_max=self._unproved_max,
        )
        self.port = await self._door.open(self._bind, 0, None if key is None else lambda: key.context)
        sealed = "in clear, for want of the extra [security]" if key is None else "encrypted"
        log.info("Listening for tasks on %s:%d, %s: each proves a secret of its own", self._bind, self.port, sealed)

    @property
    def unproved(self) -> int:
        """Connections that have not proved yet which task they are."""
        return 0 if self._door is None else self._door.silent

    @property
    def certificate(self) -> str | None:
        """What tasks trust, in PEM; None where nothing is encrypted."""
        return None if self._key is None else self._key.certificate

    def expect(self, served: Served, spec: Spec) -> Attempt[Spec]:
        """Announce a task that will connect, and be told what it is to do."""
        attempt = Attempt(self, served, spec)
        self._attempts[attempt.name] = attempt
        return attempt

    def forget(self, attempt: Attempt[Any]) -> None:
        """Let nobody claim an attempt any more."""
        self._attempts.pop(attempt.name, None)

    async def close(self) -> None:
        """Stop listening and end all connections."""
        for attempt in list(self._attempts.values()):
            attempt.close()
        if self._door is not None:
            await self._door.close()

    def _arrived(self) -> asyncio.Protocol:
        reader = asyncio.StreamReader()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._serve(protocol, reader, writer)
            except (
                asyncio.CancelledError
            ):  # asyncio asks an ended task for its error, and logs that it had been cancelled
                writer.transport.abort()

        protocol = asyncio.StreamReaderProtocol(reader, serve)
        return protocol

    async def _serve(self, arrival: object, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._door is not None
        try:
            attempt = await self._claimed(reader, writer)
            if attempt is None:
                writer.transport.abort()  # a stranger is not waited for, as the end of TLS would be
                return
            self._door.gone(arrival)  # tasks are as many as there are: the door's bounds are for strangers
            await self._listen(attempt, reader)
        except (OSError, EOFError, ValueError, KeyError) as error:
            log.debug("a connection to the control channel ended: %r", error)
        finally:
            self._door.gone(arrival)
            writer.close()

    async def _claimed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Attempt[Any] | None:
        """Return the attempt that the other side has proved to be, None where it has not."""
        challenge = secrets.token_bytes(frames.CHALLENGE_BYTES)
        writer.write(challenge)
        name, own, shown = frames.GREETING.unpack(await reader.readexactly(frames.GREETING.size))
        attempt = self._attempts.get(name.decode("latin-1"))
        if attempt is None or attempt.claimed:
            self._warn("for a run that is not expected")
            return None
        if not frames.is_proof(attempt.token, challenge, own, side="task", found=shown):
            self._warn("without the right token")
            return None
        attempt.claimed = True
        told = {"target": attempt.target.name, "spec": attempt.spec.to_message()}
        writer.write(frames.proof(attempt.token, challenge, own, side="worker") + frames.encode(told))
        attempt.connected(writer)
        return attempt

    def _warn(self, how: str) -> None:
        """Say that a stranger was there, which strangers must not fill the log with."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._warns_from_s:
            self._warns_from_s = now_s + WARNS_AGAIN_S
            log.warning("The control channel was asked %s: the connection is closed", how)

    async def _listen(self, attempt: Attempt[Any], reader: asyncio.StreamReader) -> None:
        answering: set[asyncio.Task[None]] = set()
        try:
            while True:
                message = await _receive(reader)
                op = str(message["op"])
                if "n" in message:
                    task = supervise(_answer(attempt, op, message), name=f"answer {op}", serves="a task")
                    answering.add(task)
                    task.add_done_callback(answering.discard)
                elif op == "tell":
                    attempt.served.on_status(storage.State[message["state"]], message.get("trace"))
                else:
                    attempt.served.on_note(op, message)
        except (EOFError, OSError):
            return
        finally:
            attempt.lost.set()
            for task in answering:
                task.cancel()


async def _answer(attempt: Attempt[Any], op: str, message: Mapping[str, Any]) -> None:
    try:
        answer: dict[str, Any] = {"re": message["n"], "value": await attempt.served.on_request(op, message)}
    except OttlaError as error:
        answer = {"re": message["n"], "error": str(error)}
    except Exception as error:  # our own mistake: it is said, and the task that asked is told
        log.exception("a task's question could not be answered")
        count_failure("Connect's tasks")
        answer = {"re": message["n"], "error": f"{type(error).__name__}: {error}"}
    attempt.send(answer)


async def _receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    (length,) = frames.HEADER.unpack(await reader.readexactly(frames.HEADER.size))
    if length > frames.FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {length} bytes is too long")
    return frames.decode(await reader.readexactly(length))
