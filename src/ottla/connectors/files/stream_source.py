"""FileStreamSource: the lines of one file, or of the standard input, as Kafka's connector of that name reads them.

Positions are bytes. (Kafka's connector counts characters and skips bytes, so it goes astray after text beyond ASCII.)
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla.config import ConfigType
from ottla.connect import (
    STOCK_VERSION,
    ConfigDef,
    ConnectError,
    Importance,
    SourceColumns,
    SourceConnector,
    SourceState,
    SourceTask,
    data,
    validators,
)
from ottla.connectors.files.lines import LineBuffer

__all__ = ["FILENAME", "POSITION", "FileStreamSourceConnector", "FileStreamSourceTask"]

log = logging.getLogger(__name__)

FILENAME, POSITION = "filename", "position"
READ_BYTES = 4 << 20
"""How much of a file is read at once."""

LOOK_S, WAIT_S = 0.05, 1.0
"""How often a quiet file is looked at, and how long one poll does so."""

STDIN = 0
"""The descriptor of the standard input: the runner has it be the worker's where the task has a process of its own."""


class FileStreamSourceTask(SourceTask):
    """Reads lines of the file that `file` names; waits for a file that is not there yet."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.file.FileStreamSourceTask"
    version: ClassVar[str] = STOCK_VERSION

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._descriptor: int | None = None
        self._position: int | None = None
        self._lines = LineBuffer(lone_returns=True)

    def start(self, props: Mapping[str, str]) -> None:
        """Take the settings; the file is opened by the first poll that finds it."""
        settings = FileStreamSourceConnector.config_def.parse(props)
        self._name: str | None = settings["file"]
        self._topic: str = settings["topic"]
        self._most: int | None = settings["batch.size"] if "batch.size" in props else None
        if not self._name:
            self._descriptor = STDIN

    def poll(self) -> SourceColumns | None:
        """Return the next lines, those of one read at most; None after a second without any."""
        deadline = time.monotonic() + WAIT_S
        while not self._stopping.is_set():
            if self._lines.waiting:
                return self._taken()
            if self._descriptor is None:
                self._open()
            if self._descriptor is not None and self._fill(self._descriptor):
                continue
            if time.monotonic() >= deadline:
                break
            self._stopping.wait(LOOK_S)
        return None

    def source_state(self) -> SourceState:
        """Return the file, and that it is not there."""
        is_away = bool(self._name) and self._descriptor is None
        return SourceState({"file": self._name}, trouble=f"the file {self._name} is not there" if is_away else None)

    def _taken(self) -> SourceColumns:
        values, taken = self._lines.take(self._most)
        position = None if self._position is None else self._position + taken
        return SourceColumns(
            topic=self._topic,
            values=values,
            schema=data.STRING,
            source_partition={FILENAME: self._name},
            source_offset={POSITION: position},
            timestamp=int(time.time() * 1000),
        )

    def _open(self) -> None:
        """Open the file at the position stored, if it is there."""
        assert self._name
        try:
            descriptor = os.open(self._name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            log.debug("Couldn't find file %s for FileStreamSourceTask, waiting for it to be created", self._name)
            return
        except OSError as error:
            raise ConnectError(f"file {self._name} cannot be opened: {error.strerror}") from error
        self._position = stored_position(self.context.offset({FILENAME: self._name}))
        try:
            os.lseek(descriptor, self._position, os.SEEK_SET)
        except OSError as error:
            os.close(descriptor)
            raise ConnectError(f"file {self._name} cannot be read from a position: {error.strerror}") from error
        self._descriptor = descriptor
        log.info("Opened %s for reading from byte %d on", self._name, self._position)

    def _fill(self, descriptor: int) -> bool:
        """Read what there is, up to a bound; return whether there was anything."""
        try:
            if self._position is None and not select.select([descriptor], [], [], LOOK_S)[0]:
                return False
            found = os.read(descriptor, READ_BYTES)
        except OSError as error:
            raise ConnectError(f"{self._name or 'the standard input'} cannot be read: {error.strerror}") from error
        if found:
            self._lines.feed(found)
        return bool(found)

    def stop(self) -> None:
        """End a poll that waits."""
        self._stopping.set()

    def __del__(self) -> None:
        if self._descriptor is not None and self._descriptor != STDIN:
            os.close(self._descriptor)


def stored_position(offset: Mapping[str, Any]) -> int:
    """Return where a stored offset goes on, 0 without one; raises ConnectError for one that is no position."""
    position = offset.get(POSITION)
    if position is None:
        return 0
    if not isinstance(position, int) or isinstance(position, bool):
        raise ConnectError("Offset position is the incorrect type")
    if position < 0:
        raise ConnectError(f"Offset position is {position}, and has to be 0 or more")
    return position


class FileStreamSourceConnector(SourceConnector):
    """Reads one file, line by line, into a topic; one task."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    version: ClassVar[str] = STOCK_VERSION
    task_class: ClassVar[type[Any]] = FileStreamSourceTask
    config_def: ClassVar[ConfigDef] = (
        ConfigDef()
        .define(
            "file",
            ConfigType.STRING,
            None,
            importance=Importance.HIGH,
            doc="Source filename. If not specified, the standard input will be used",
        )
        .define(
            "topic",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="The topic to publish data to",
            validator=validators.NonEmptyString(),
        )
        .define(
            "batch.size",
            ConfigType.INT,
            2000,
            importance=Importance.LOW,
            doc="The maximum number of records the source task can read from the file each time it is polled",
        )
    )

    def start(self, props: Mapping[str, str]) -> None:
        """Hold the configuration against its keys."""
        settings = self.config_def.parse(props)
        log.info("Starting file source connector reading from %s", settings["file"] or "standard input")
        super().start(props)

    def exactly_once_support(self, props: Mapping[str, str]) -> bool:
        """Return True for a file, which has positions; the standard input has none."""
        return bool(self.config_def.parse(props)["file"])

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Refuse what is no position of a file; anything may be forgotten."""
        if not self.config_def.parse(props)["file"]:
            raise ConnectError(
                "Offsets cannot be modified if the 'file' configuration is unspecified. This is because stdin is used for "
                "input and offsets are not tracked."
            )
        for partition, offset in offsets:
            if offset is not None:
                _check(partition, offset)
        return True


def _check(partition: Mapping[str, Any] | None, offset: Mapping[str, Any]) -> None:
    if POSITION not in offset:
        raise ConnectError(f"Offset objects should either be null or contain the key '{POSITION}'")
    position = offset[POSITION]
    if not isinstance(position, int) or isinstance(position, bool):
        raise ConnectError(f"The value for the '{POSITION}' key in the offset is expected to be a Long value")
    if position < 0:
        raise ConnectError(f"The value for the '{POSITION}' key in the offset should be a non-negative value")
    if partition is None:
        raise ConnectError("Partition objects cannot be null")
    if FILENAME not in partition:
        raise ConnectError(f"Partition objects should contain the key '{FILENAME}'")
