"""The task's end of the control channel: one TCP connection to the worker, used from any thread of the task."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from ottla.background import supervise_thread
from ottla.base import why_unreached
from ottla.connect import ConnectError, storage
from ottla.connect.decisions import Progress
from ottla.connect.tasks.channel import Channel
from ottla.connect.tasks.frames import (
    CHALLENGE_BYTES,
    FRAME_BYTES_MAX,
    GREETING,
    HEADER,
    PROOF_BYTES,
    decode,
    encode,
    is_proof,
    proof,
)
from ottla.connect.tasks.interface import TaskSpec
from ottla.security.ephemeral import trusting_only

__all__ = ["Dial", "RemotePort"]

Spec = TypeVar("Spec")
"""What the other end says of what is to be run here."""
ANSWER_SECONDS_MAX = 120.0
"""How long the worker may take to store offsets, or to say which are stored."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Where one attempt to run a task reports to; it travels with the task."""

    host: str
    port: int
    attempt: str
    token: str
    certificate: str | None = None
    """The worker's, in PEM; None where the channel is not encrypted."""

    def __repr__(self) -> str:
        return f"Dial({self.host}:{self.port}, {self.attempt})"


class RemotePort(Generic[Spec]):
    """A `TaskPort` over TCP. Where the connection ends, the target becomes STOPPED and calls raise ConnectionError.

    What the task is to do, with all its passwords, comes over this connection too, so that it stands in nothing of Spark's.
    """

    spec: Spec

    def __init__(
        self,
        dial: Dial,
        *,
        on_levels: Callable[[Mapping[str, int]], None] | None = None,
        read_spec: Callable[[Mapping[str, Any]], Spec] | None = None,
        on_order: Callable[[Mapping[str, Any]], None] = lambda order: None,
        on_gone: Callable[[], None] = lambda: None,
    ) -> None:
        """`read_spec` reads what is to be run, a `TaskSpec` unless told otherwise.

        `on_order` and `on_gone` are called in the thread that listens: for messages with an `order`, and at the end.
        """
        self._changed = threading.Condition()
        self._target = storage.TargetState.STARTED
        self._gone = False
        self._asked = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._on_levels, self._on_order, self._on_gone = on_levels, on_order, on_gone
        self._read_spec = read_spec or cast("Callable[[Mapping[str, Any]], Spec]", TaskSpec.of_message)
        context = None if dial.certificate is None else trusting_only(dial.certificate)
        self._channel = Channel(dial.host, dial.port, context)
        try:
            self._greet(dial)
        except BaseException:
            self._channel.close()
            raise
        self._channel.wait_for_ever()
        supervise_thread(self._listen, name="ottla-control", serves="a task", failed=self._hears_no_more)

    def _greet(self, dial: Dial) -> None:
        """Prove to the worker who this is, and have it prove the same; raises ConnectionError."""
        challenge, own = self._exactly(CHALLENGE_BYTES), secrets.token_bytes(CHALLENGE_BYTES)
        shown = proof(dial.token, challenge, own, side="task")
        self._channel.send(GREETING.pack(dial.attempt.encode(), own, shown))
        if not is_proof(dial.token, challenge, own, side="worker", found=self._exactly(PROOF_BYTES)):
            raise ConnectionError("the worker did not prove that it is the one that started this task")
        answer = self._receive()
        self._target = storage.TargetState[answer["target"]]
        self.spec = self._read_spec(answer["spec"])

    def _receive(self) -> dict[str, Any]:
        (length,) = HEADER.unpack(self._exactly(HEADER.size))
        if length > FRAME_BYTES_MAX:
            raise ConnectionError(f"the worker sent a frame of {length} bytes")
        return decode(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = self._channel.receive(count - len(data))
            if not more:
                raise ConnectionError("the worker has closed the control channel")
            data += more
        return bytes(data)

    def _listen(self) -> None:
        try:
            while True:
                message = self._receive()
                with self._changed:
                    if "target" in message:
                        self._target = storage.TargetState[message["target"]]
                    elif "re" in message:
                        self._answers[message["re"]] = message
                    self._changed.notify_all()
                if "levels" in message and self._on_levels is not None:
                    self._on_levels(message["levels"])
                if "order" in message:
                    self._on_order(message)
        except (OSError, ValueError, KeyError) as error:
            self._hears_no_more(error)

    def _hears_no_more(self, error: BaseException) -> None:
        """Stop the task: what its worker wants is not heard any more."""
        with self._changed:
            self._gone, self._target = True, storage.TargetState.STOPPED
            self._changed.notify_all()
        self._on_gone()

    def _send(self, message: dict[str, Any]) -> None:
        frame = encode(message)
        if self._gone:
            raise ConnectionError("the worker is gone")
        try:
            self._channel.send(frame)
        except OSError as error:
            raise ConnectionError(f"the worker is gone: {why_unreached(error)}") from error

    def _ask(self, message: dict[str, Any]) -> Any:
        """Send a question and wait for its answer; raises ConnectError with what the worker says."""
        with self._changed:
            self._asked += 1
            number = self._asked
        self._send({**message, "n": number})
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers or self._gone, ANSWER_SECONDS_MAX)
            answer = self._answers.pop(number, None)
        if answer is None:
            if self._gone:
                raise ConnectionError("the worker is gone")
            raise ConnectError(f"the worker did not answer within {ANSWER_SECONDS_MAX:g} s")
        if "error" in answer:
            raise ConnectError(answer["error"])
        return answer.get("value")

    @property
    def gone(self) -> bool:
        """Whether the worker can be reached no more."""
        return self._gone

    # TaskPort

    def tell(self, state: storage.State, trace: str | None = None) -> None:
        """See `TaskPort`."""
        self._send({"op": "tell", "state": state.value, "trace": trace})

    @property
    def target(self) -> storage.TargetState:
        """See `TaskPort`."""
        return self._target

    def wait(self, seconds: float) -> None:
        """See `TaskPort`."""
        deadline = time.monotonic() + seconds
        with self._changed:
            before = self._target
            while self._target is before and not self._gone:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """See `TaskPort`."""
        found: list[Mapping[str, Any] | None] = self._ask({"op": "offsets", "partitions": [*map(dict, partitions)]})
        return found

    def store_offsets(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
        """See `TaskPort`."""
        pairs = [[dict(partition), None if offset is None else dict(offset)] for partition, offset in offsets]
        self._ask({"op": "store", "offsets": pairs})

    def confirm(self) -> None:
        """See `TaskPort`."""
        self._ask({"op": "confirm"})

    def used(self, topic: str) -> None:
        """See `TaskPort`."""
        self._send({"op": "used", "topic": topic})

    def report(self, metrics: Mapping[str, float]) -> None:
        """See `TaskPort`."""
        self._send({"op": "report", "metrics": dict(metrics)})

    def progress(self, told: Progress) -> None:
        """See `TaskPort`."""
        self._send({"op": "progress", "told": told.to_message()})

    # Beyond the protocol

    def note(self, op: str, facts: Mapping[str, Any]) -> None:
        """Tell the worker something of a kind that it knows; raises ConnectionError."""
        self._send({**facts, "op": op})

    def log(self, level: int, logger: str, text: str) -> None:
        """Hand a line of the task's log to the worker; nothing happens where that is gone."""
        try:
            self._send({"op": "log", "level": level, "logger": logger, "text": text})
        except ConnectionError:
            return

    def close(self) -> None:
        """End the connection."""
        self._channel.close()
