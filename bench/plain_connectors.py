"""Two connectors as a user writes them, record by record, for `bench.connect`; workers find them by `plugin.path`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ottla.config import ConfigType
from ottla.connect import (
    ConfigDef,
    Importance,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    data,
)

__all__ = ["PlainSinkConnector", "PlainSourceConnector"]

POLL_RECORDS = 2_000
TEXT = "x" * 86


class _SourceTask(SourceTask):
    """Returns numbered texts of 99 bytes until there are as many as wanted."""

    def start(self, props: Mapping[str, str]) -> None:
        self.topic, self.records = props["topic"], int(props["records"])
        self.place = {"source": "plain"}
        self.position = int(self.context.offset(self.place).get("position", 0))

    def poll(self) -> list[SourceRecord] | None:
        first = self.position
        self.position = min(first + POLL_RECORDS, self.records)
        found = [self.record(number) for number in range(first, self.position)]
        return found or None

    def record(self, number: int) -> SourceRecord:
        return SourceRecord(
            topic=self.topic,
            value_schema=data.STRING,
            value=f"{number:012d} {TEXT}",
            source_partition=self.place,
            source_offset={"position": number + 1},
        )


class PlainSourceConnector(SourceConnector):
    """A source of texts."""

    task_class = _SourceTask
    config_def = (
        ConfigDef()
        .define("topic", ConfigType.STRING, importance=Importance.HIGH, doc="The topic to write to.")
        .define("records", ConfigType.INT, importance=Importance.HIGH, doc="How many records there are.")
    )


class _SinkTask(SinkTask):
    """Looks at each record's value, and keeps in a file how many bytes there were."""

    def start(self, props: Mapping[str, str]) -> None:
        self.file = os.open(props["file"], os.O_WRONLY | os.O_CREAT, 0o600)
        self.size = 0

    def put(self, records: Sequence[SinkRecord]) -> None:
        for each in records:
            self.size += len(each.value)
        if records:
            os.pwrite(
                self.file, b"%020d" % self.size, 0
            )  # an open file's: opening one for each call was half of the time

    def stop(self) -> None:
        os.close(self.file)


class PlainSinkConnector(SinkConnector):
    """A sink that counts."""

    task_class = _SinkTask
    config_def = ConfigDef().define(
        "file", ConfigType.STRING, importance=Importance.HIGH, doc="The file that says how many bytes came."
    )
