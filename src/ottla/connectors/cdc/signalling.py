"""What signals have asked a task for, wherever they came from, and what is kept of it in source offsets."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ottla.connect import ConnectError, DataError, SourceRecord
from ottla.connectors.cdc.chunks import ChunkServer
from ottla.connectors.cdc.events import Events
from ottla.connectors.cdc.incremental import IncrementalSnapshot, Progress
from ottla.connectors.cdc.notifications import Notifications
from ottla.connectors.cdc.replication import ServerAwayError, ServerLacksError
from ottla.connectors.cdc.signals import FileChannel, KafkaChannel, Request, Signal, requests_of

__all__ = ["Signalling"]

log = logging.getLogger(__name__)
CONSUMER: Final = "signal.consumer."
"""What the names begin with of librdkafka's properties for the topic of signals."""
LACKS_MAX: Final = 5
"""How often a chunk is tried again that the server has no memory, locks or disk for."""
_BLOCKING: Final = "blocking_snapshot_collections"


class Signalling:
    """Takes signals from their channels; `incremental` reads beside the stream, `blocking` is to be read in its place."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        props: Mapping[str, str],
        events: Events,
        notifications: Notifications,
        offset: Mapping[str, Any],
        captured: Callable[[], Sequence[str]],
        where: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Go on from an `offset`; `captured` names the tables that are, `where` says where reading is.

        Raises ConnectError where the brokers of a topic of signals are not there.
        """
        self._captured, self._where = captured, where
        self._every_s = settings["signal.poll.interval.ms"] / 1000
        self._look_at_s = 0.0
        channels = {each.strip() for each in settings["signal.enabled.channels"]}
        self._has_source = "source" in channels
        self._file = FileChannel(settings["signal.file"]) if "file" in channels else None
        self._topic: KafkaChannel | None = None
        if "kafka" in channels:
            more = {name.removeprefix(CONSUMER): value for name, value in props.items() if name.startswith(CONSUMER)}
            self._topic = KafkaChannel(settings, offset, more)
        self.may_be_asked = (
            self._file is not None or self._topic is not None or bool(settings["signal.data.collection"])
        )
        """Whether there is any way by which a signal may come."""
        self._waiting: deque[Signal] = deque()
        """Taken from a channel that has them no more, and not followed yet."""
        self._lacks = 0
        self.incremental = IncrementalSnapshot(settings, events, Progress.of(offset), notifications)
        self.blocking = _blocking_of(offset)

    @property
    def is_reading(self) -> bool:
        """Whether an incremental snapshot has still to be read."""
        return bool(self.incremental.progress.queue)

    def kept(self) -> dict[str, Any]:
        """Return what is still to be read, and the place in the topic, as a part of a source offset."""
        listed = json.dumps([[each.table, each.condition] for each in self.blocking])
        return {
            **self.incremental.progress.offset(),
            **({_BLOCKING: listed} if self.blocking else {}),
            **({} if self._topic is None else self._topic.offset()),
        }

    def look(self) -> None:
        """Take what stands in the file and the topic, where it is time to. Raises ServerAwayError."""
        now_s = time.monotonic()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + self._every_s
            for channel in (self._file, self._topic):
                self._waiting.extend(() if channel is None else channel.taken())
        while self._waiting:
            self._follow(self._waiting[0])
            self._waiting.popleft()

    def step(self, opened: Callable[[], ChunkServer], end: Callable[[], Any]) -> None:
        """Read the next chunk, where one is due; what the server refuses ends it. Raises ServerAwayError.

        `end` says where the log ends; it is asked where no marks are to be written.
        """
        if not self.is_reading:
            return
        try:
            self.incremental.step(opened(), end)
            self._lacks = 0
        except ServerLacksError as error:  # the stream goes on, which must not be tried again for ever
            self._lacks += 1
            if (
                self._lacks <= LACKS_MAX
            ):  # counted here, and not where the stream's own tries are, whose end is the task's
                raise ServerAwayError(str(error), error.code) from error
            self._give_up(error)
        except ServerAwayError:
            raise
        except (ConnectError, DataError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        log.error("The incremental snapshot is ended: %s", error)
        self._lacks = 0
        self.incremental.give_up()

    def noted(self, texts: Sequence[str | None], op: str) -> list[SourceRecord]:
        """Take a row of the signals' table that was inserted (c) or deleted (d); returns the rows that a mark lets go."""
        if len(texts) < 3 or texts[0] is None or op not in ("c", "d"):
            return []
        if found := self.incremental.marked(texts[0], deleted=op == "d"):
            return found
        if op == "c" and self._has_source:
            try:
                self._follow(Signal.of(*texts[:3]))
            except DataError as error:
                log.warning("%s", error)
        return []

    def _follow(self, signal: Signal) -> None:
        """Do what a signal asks for; one that cannot be followed is said, and passed over."""
        try:
            match signal.type:
                case "log":
                    log.info("%s", str(signal.data.get("message", "")).replace("{}", str(dict(self._where()))))
                case "execute-snapshot":
                    self._execute(signal)
                case "stop-snapshot":
                    self.incremental.stop(signal, self._captured())
                case "pause-snapshot" | "resume-snapshot":
                    self.incremental.pause(paused=signal.type == "pause-snapshot")
                case "snapshot-window-open" | "snapshot-window-close":
                    pass  # an earlier task's
                case _:
                    log.warning("Signal %s is of type %s, which is not known", signal.id, signal.type)
        except ServerAwayError:
            raise
        except (ConnectError, DataError) as error:
            log.warning("%s", error)

    def _execute(self, signal: Signal) -> None:
        kind = str(signal.data.get("type", "incremental")).lower()
        if kind == "incremental":
            self.incremental.request(signal, self._captured())
        elif kind == "blocking":
            self.blocking += tuple(requests_of(signal, self._captured()))
            log.info("A snapshot of %s is asked for", ", ".join(each.table for each in self.blocking) or "nothing")
        else:
            raise DataError(f"Signal {signal.id}: snapshots are incremental or blocking, and {kind} is neither")

    def close(self) -> None:
        """Hang up."""
        if self._topic is not None:
            self._topic.close()


def _blocking_of(offset: Mapping[str, Any]) -> tuple[Request, ...]:
    """Return the tables of a source offset that were asked for and not read whole."""
    try:
        return tuple(Request(str(table), condition) for table, condition in json.loads(offset.get(_BLOCKING) or "[]"))
    except (ValueError, TypeError, RecursionError):
        return ()
