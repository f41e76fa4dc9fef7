"""Notifications: what snapshots have come to, as records of a topic or lines of the log, in Debezium's form."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.connect import SourceRecord
from ottla.connect.data import INT64, STRING, SchemaBuilder, Struct

__all__ = ["CHANNELS", "INCREMENTAL", "INITIAL", "Notifications"]

log = logging.getLogger(__name__)
CHANNELS: Final = ("log", "sink")
INITIAL, INCREMENTAL = "Initial Snapshot", "Incremental Snapshot"
_COMMON: Final = "io.debezium.connector.common"
KEY: Final = SchemaBuilder.struct().name(f"{_COMMON}.NotificationKey").version(1).field("id", STRING).build()
VALUE: Final = (
    SchemaBuilder.struct()
    .name(f"{_COMMON}.Notification")
    .version(1)
    .field("id", STRING)
    .field("type", STRING)
    .field("aggregate_type", STRING)
    .field("additional_data", SchemaBuilder.map(STRING, STRING).optional().build())
    .field("timestamp", INT64)
    .build()
)


class Notifications:
    """Takes what happens, and gives the records that tell it; of a connector without channels it does nothing."""

    def __init__(self, settings: Mapping[str, Any], partition: Mapping[str, str]) -> None:
        channels = {each.strip() for each in settings["notification.enabled.channels"]}
        self._prefix: str = settings["topic.prefix"]
        self._topic: str | None = settings["notification.sink.topic.name"] if "sink" in channels else None
        self._logs = "log" in channels
        self._partition = partition
        self._waiting: list[SourceRecord] = []

    @property
    def are_wanted(self) -> bool:
        """Whether anybody is told."""
        return self._logs or self._topic is not None

    def tell(
        self, aggregate: str, type_: str, id_: str | None = None, tables: Iterable[str] | None = None, **more: Any
    ) -> None:
        """Tell one thing; incremental snapshots have their signal's id, all else one of its own."""
        if not self.are_wanted:
            return
        data = {"connector_name": self._prefix, **{name: str(value) for name, value in more.items()}}
        if tables is not None:
            data["data_collections"] = ",".join(tables)
        values = {
            "id": id_ or str(uuid.uuid4()),
            "type": type_,
            "aggregate_type": aggregate,
            "additional_data": data,
            "timestamp": time.time_ns() // 1_000_000,
        }
        if self._logs:
            log.info("Notification: %s", values)
        if self._topic is not None:
            self._waiting.append(
                SourceRecord(
                    topic=self._topic,
                    key_schema=KEY,
                    key=Struct(KEY, {"id": values["id"]}),
                    value_schema=VALUE,
                    value=Struct(VALUE, values),
                    source_partition=self._partition,
                    source_offset=None,
                )
            )

    def taken(self) -> list[SourceRecord]:
        """Return the records that were not returned yet."""
        found, self._waiting = self._waiting, []
        return found
