"""What the tasks of all databases have in common: a snapshot or the stream, signals between the two, a server that is away.

A poll is one turn: rows of a snapshot where one is under way; else what has changed, behind what signals ask for. What fails
because the server is away is tried again after `RETRY_SECONDS`, and what the server lacks `LACKS_MAX` times; a snapshot of a
signal that the server refuses is given up; all else ends the task.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from ottla.connect import ConnectError, Measure, SourceColumns, SourceRecord, SourceState, SourceTask
from ottla.connectors.cdc.events import Events
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.notifications import INITIAL, Notifications
from ottla.connectors.cdc.replication import ServerAwayError, ServerLacksError, ServerRefusesError
from ottla.connectors.cdc.scan import Scan, with_offset
from ottla.connectors.cdc.signalling import Signalling
from ottla.connectors.cdc.unmatched import Unmatched

__all__ = ["CaptureTask"]

log = logging.getLogger(__name__)
RETRY_SECONDS: Final = 5.0
"""Between two tries to reach a server that has gone away."""
WELL_SECONDS: Final = 2 * RETRY_SECONDS
"""How long a connection has to stand, with nothing told, until its server counts as read again."""
SILENT_SECONDS_MAX: Final = 60.0
"""After so long without an answer a server is said to be silent."""
REFUSALS_MAX: Final = 24
"""How often a server that is there may refuse the connection, one try behind the other, before the task ends."""
LACKS_MAX: Final = 5
"""How often it is tried again what a server has no locks, memory or disk for, with nothing told meanwhile."""
Stream = TypeVar("Stream")


class CaptureTask(SourceTask, ABC, Generic[Stream]):
    """See the module's description. `stop` may come from another thread than the other calls.

    A database's task sets the fields without a value in its `start`, and says how its server is asked.
    """

    version = "1.0"
    _settings: Mapping[str, Any]
    _mode: str
    """`snapshot.mode`."""
    _events: Events
    _metrics: CaptureMetrics
    _notifications: Notifications
    _signalling: Signalling

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        """Held by whoever uses the connections: they must not be closed under a reader."""
        self._stream: Stream | None = None
        self._reading: Scan | None = None
        """The snapshot under way."""
        self._retry_at_s = 0.0
        self._refusals = self._lacks = 0
        self._unmatched = Unmatched({})
        self._away: str | None = None
        """Why the server could not be read last; None where it has been read for a while since."""
        self._opened_at_s = 0.0

    def source_state(self) -> SourceState:
        """Return where it reads, how far the server is where that is known, and why it cannot be read."""
        facts = {"position": dict(self._where()), **self._metrics.progress(), **self._server_state()}
        waiting, oldest_ms = self._held()
        trouble = self._away or self._silence()
        return SourceState(
            facts, waiting, oldest_ms, trouble, [*self._left_out(), *self._unmatched.told()], moved=facts
        )

    def _silence(self) -> str | None:
        """Return that the server says nothing, which it does when it is asked and has nothing; None where it speaks."""
        silent_s = self._silent_s()
        if silent_s <= SILENT_SECONDS_MAX:
            return None
        return (
            f"the server has not answered for {silent_s:.0f} s, and was asked: is its machine, or its process, stopped?"
        )

    def _server_state(self) -> Mapping[str, Any]:
        """Return what the server has said of how far it is; nothing where it says none of that."""
        return {}

    def _held(self) -> tuple[int, int | None]:
        """Return how many records wait for the rest of their transaction, and when that was committed (milliseconds)."""
        return 0, None

    def _silent_s(self) -> float:
        """Return for how long the stream was read and nothing has come, not even an answer."""
        return 0.0

    def _left_out(self) -> Sequence[str]:
        """Return which tables are not told while others are, and why."""
        return ()

    def measures(self) -> list[Measure]:
        """Return what Debezium's connector measures."""
        return self._metrics.measures()

    def poll(self) -> Sequence[SourceRecord | SourceColumns] | None:
        """Return the next records, of a snapshot or of what has changed; None where nothing came in `poll.interval.ms`."""
        with self._turn:
            if self._stopping.is_set():
                return None
            found = self._poll()
            if found:
                self._unmatched.told_of(self._events.tables)
            found = [*(found or ()), *told] if (told := self._notifications.taken()) else found
            if found and self._reading is None and self.context.transaction is not None:
                self.context.transaction.commit()  # a snapshot is in one transaction, whole or not at all
            return found

    def _poll(self) -> Sequence[SourceRecord | SourceColumns] | None:
        if self._reading is not None:
            return self._snapshot_rows(self._reading)
        if self._mode == "initial_only":
            self._stopping.wait(self._settings["poll.interval.ms"] / 1000)
            return None
        if self._signalling.blocking and self._is_between and time.monotonic() >= self._retry_at_s:
            self._begin_blocking()
            return None
        return self._from_stream()

    # -- snapshots

    def _snapshot_rows(self, reading: Scan) -> list[SourceRecord | SourceColumns] | None:
        """Return the next rows of a snapshot; the last of them have the offset behind it."""
        try:
            found = reading.take(self._rows_at_once)
        except ConnectError as error:
            self._ended(error)
            return None
        if not reading.is_over:
            return found
        self._reading = None
        self._close_snapshot()
        log.info("The snapshot is complete")
        self._forget_blocking()
        found = found or self._instead_of_rows()
        if found:
            found[-1] = with_offset(found[-1], {**self._where(), "snapshot_completed": True})
        return found or None

    def _begin_blocking(self) -> None:
        """Have the tables that a signal asked for read; the stream goes on behind them."""
        try:
            self._reading = self._blocking_scan()
        except ConnectError as error:
            self._ended(error)

    def _ended(self, error: ConnectError) -> None:
        """A snapshot has failed: one of a signal begins anew where the server has gone away, and is given up otherwise."""
        self._metrics.snapshot_ended(aborted=True)
        self._notifications.tell(INITIAL, "ABORTED")
        if not self._signalling.blocking:
            raise error
        self._reading = None
        is_tried = not isinstance(error, ServerLacksError) or self._lacks < LACKS_MAX
        if (isinstance(error, ServerAwayError) and is_tried) or self._is_cut:
            self._lost(error)
            return
        log.error("The snapshot that a signal asked for is ended: %s", error)
        self._lacks = 0
        self._give_up_snapshot()
        self._forget_blocking()

    def _forget_blocking(self) -> None:
        """Have what a signal asked for stand in the offsets no more."""
        if self._signalling.blocking:
            self._signalling.blocking = ()
            self._keep()

    # -- the stream

    def _from_stream(self) -> Sequence[SourceRecord | SourceColumns] | None:
        """Return what has changed, behind what signals ask for; None where nothing came, or the server is away."""
        if self._stream is None and not self._opened():
            return None
        found = self._changed(self._settings["max.batch.size"]) if self._looked_for_signals() else None
        if found:
            self._lacks = 0
        if self._stream is not None and (found or time.monotonic() > self._opened_at_s + WELL_SECONDS):
            self._away = None
        return found

    def _opened(self) -> bool:
        """Begin to stream, again where the server had gone away."""
        left_s = self._retry_at_s - time.monotonic()
        if left_s > 0:
            self._stopping.wait(min(left_s, self._settings["poll.interval.ms"] / 1000))
            return False
        try:
            self._stream = self._opened_stream()
        except ServerAwayError as error:
            self._lost(error)
            return False
        self._metrics.is_connected = True
        self._opened_at_s = time.monotonic()
        self._refusals = 0
        return True

    def _looked_for_signals(self) -> bool:
        """Take what has come, and read what is to be read beside the stream; false where the server has gone away."""
        try:
            self._signalling.look()
            self._step()
        except ServerAwayError as error:
            self._lost(error)
            return False
        finally:
            self._keep()
        return True

    def _lost(self, error: ConnectError) -> None:
        """Hang up, and try again after a while, behind what was told. Raises ConnectError where it refuses for long."""
        self._lacks += isinstance(error, ServerLacksError)
        if self._lacks > LACKS_MAX:
            raise ConnectError(f"{error} (tried {self._lacks} times)") from error
        self._refusals += isinstance(error, ServerRefusesError)
        if self._refusals > REFUSALS_MAX:
            raise ConnectError(f"{error} ({self._refusals} times, and the server is there)") from error
        log.warning("%s; trying again in %.0f s", error, RETRY_SECONDS)
        self._metrics.is_connected = False
        self._away = str(error)
        self._hang_up()
        self._retry_at_s = time.monotonic() + RETRY_SECONDS

    # -- what each database does in its own way

    @property
    def _rows_at_once(self) -> int:
        """How many rows of a snapshot a poll returns; columns count as one."""
        return int(self._settings["max.batch.size"])

    @property
    def _is_cut(self) -> bool:
        """Whether a snapshot's connection is gone, where its error does not say so."""
        return False

    def _instead_of_rows(self) -> list[SourceRecord | SourceColumns]:
        """Return what carries the place to go on from behind a snapshot without rows."""
        return []

    @property
    @abstractmethod
    def _is_between(self) -> bool:
        """Whether no transaction is under way, and the stream may wait for a snapshot."""

    @abstractmethod
    def _blocking_scan(self) -> Scan:
        """Close the stream and begin to read what a signal asked for; raises ConnectError."""

    @abstractmethod
    def _close_snapshot(self) -> None:
        """Let go of what only a snapshot needs, which has come to its end."""

    @abstractmethod
    def _give_up_snapshot(self) -> None:
        """Let go of what only a snapshot needs, which the server has refused."""

    @abstractmethod
    def _opened_stream(self) -> Stream:
        """Begin to stream behind what was told; raises ConnectError, ServerAwayError."""

    @abstractmethod
    def _changed(self, most: int) -> Sequence[SourceRecord | SourceColumns] | None:
        """Return about so many records of the stream, None where nothing came."""

    @abstractmethod
    def _step(self) -> None:
        """Read the next chunk of an incremental snapshot, where one is due; raises ServerAwayError."""

    @abstractmethod
    def _keep(self) -> None:
        """Have what is to be read stand in the offsets from now on."""

    @abstractmethod
    def _where(self) -> Mapping[str, Any]:
        """Return the place to go on from, as a source offset."""

    @abstractmethod
    def _hang_up(self) -> None:
        """Close all connections, and forget what comes again with the next."""
