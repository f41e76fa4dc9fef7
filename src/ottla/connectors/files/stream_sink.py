"""FileStreamSink: the values of topics as lines of one file, or of the standard output, as Kafka's connector writes them."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla.base import TopicPartition
from ottla.config import ConfigType
from ottla.connect import (
    STOCK_VERSION,
    ConfigDef,
    ConnectError,
    Importance,
    Offsets,
    SinkColumns,
    SinkConnector,
    SinkRecord,
    SinkTask,
    data,
)

__all__ = ["FileStreamSinkConnector", "FileStreamSinkTask"]

log = logging.getLogger(__name__)

STDOUT = 1
"""The descriptor of the standard output: the runner has it be the worker's where the task has a process of its own."""


class FileStreamSinkTask(SinkTask):
    """Appends a line for each record to the file that `file` names.

    Every batch is appended by one write, so the lines of several tasks do not run into each other.
    """

    java_name: ClassVar[str] = "org.apache.kafka.connect.file.FileStreamSinkTask"
    version: ClassVar[str] = STOCK_VERSION

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def start(self, props: Mapping[str, str]) -> None:
        """Open the file, which is made where it is not there; raises ConnectError where it cannot be."""
        name = FileStreamSinkConnector.config_def.parse(props)["file"]
        self._name: str = name or "the standard output"
        self._descriptor = _appending(name) if name else _standard_output()

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Append a line for each record, at once."""
        self._write(b"".join([_line(each.value) for each in records]))

    def put_columns(self, columns: SinkColumns) -> None:
        """Append a line for each row, at once."""
        self._write(_column_lines(columns.values))

    def _write(self, lines: bytes | memoryview) -> None:
        assert self._descriptor is not None
        rest = memoryview(lines)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except OSError as error:
                raise ConnectError(f"{self._name} cannot be written to: {error.strerror}") from error

    def flush(self, offsets: Offsets) -> None:
        """Bring what was written onto the disk, before the offsets say that it is."""
        if self._descriptor is not None and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            os.fdatasync(self._descriptor)

    def stop(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _appending(name: str) -> int:
    try:
        return os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ConnectError(f"Couldn't find or create file '{name}' for FileStreamSinkTask: {error.strerror}") from error


def _standard_output() -> int:
    sys.stdout.flush()
    return os.dup(STDOUT)


def _line(value: Any) -> bytes:
    """Return a value's line: its text as Java writes it, bytes as they are."""
    if isinstance(value, bytes):
        return value + b"\n"
    return (value if isinstance(value, str) else data.java_text(value)).encode("utf-8", "replace") + b"\n"


def _column_lines(values: Any) -> memoryview:
    """Return the lines of an array: one buffer, put together by Arrow."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    binary = pc.fill_null(values, "null" if pa.types.is_string(values.type) else b"null").cast(pa.large_binary())
    lines = pc.binary_join_element_wise(binary, pa.scalar(b"", pa.large_binary()), pa.scalar(b"\n", pa.large_binary()))
    _, bounds, content = lines.buffers()
    if not len(lines) or content is None:
        return memoryview(b"")
    places = np.frombuffer(bounds, np.int64)
    return memoryview(content)[int(places[lines.offset]) : int(places[lines.offset + len(lines)])]


class FileStreamSinkConnector(SinkConnector):
    """Writes topics into one file; as many tasks as asked for, all into the same one."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    version: ClassVar[str] = STOCK_VERSION
    task_class: ClassVar[type[Any]] = FileStreamSinkTask
    config_def: ClassVar[ConfigDef] = ConfigDef().define(
        "file",
        ConfigType.STRING,
        None,
        importance=Importance.HIGH,
        doc="Destination filename. If not specified, the standard output will be used",
    )

    def start(self, props: Mapping[str, str]) -> None:
        """Hold the configuration against its keys."""
        settings = self.config_def.parse(props)
        log.info("Starting file sink connector writing to %s", settings["file"] or "standard output")
        super().start(props)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return the same configuration for each of `tasks_max` tasks."""
        return [self.props] * tasks_max

    def alter_offsets(self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Allow any offsets: the file says nothing of them."""
        return True
