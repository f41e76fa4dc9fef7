"""GeneratorSource: a source of rows that are made up, at a rate, the same ones for the same seed.

An offset is the number of the next row, so a task goes on exactly where its last stored row was.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ottla.config import ConfigType
from ottla.connect import (
    STOCK_VERSION,
    ConfigDef,
    ConfigValue,
    ConnectError,
    Importance,
    SourceConnector,
    SourceRecord,
    SourceTask,
    data,
    validators,
)
from ottla.connectors.datagen.rows import KINDS, Draw, World

__all__ = ["GeneratorSourceConnector", "GeneratorSourceTask"]

log = logging.getLogger(__name__)

ALIASES = {"clickstream": "clicks"}
NUMBER = "task.number"
ROWS_MAX = 2000
"""How many rows a poll returns at most."""

WAIT_S = 1.0
"""How long a poll waits for the next row to be due."""

TASK_IDS = 1_000_000_000_000
"""Between the first order ids of two tasks."""

NOT_HERE = ("schema.string", "schema.filename", "schema.keyfield")
"""Keys of Confluent's connector that rows of a schema of one's own need."""


class GeneratorSourceTask(SourceTask):
    """Makes up the rows of one task; tasks have seeds of their own."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    def start(self, props: Mapping[str, str]) -> None:
        """Take the settings and go on where the last run came to."""
        values = GeneratorSourceConnector.config_def.parse(props)
        self._kind = KINDS[ALIASES.get(values["quickstart"], values["quickstart"])]
        self._topic: str = values["kafka.topic"]
        self._number: int = values[NUMBER]
        self._seed: int = values["random.seed"] + self._number
        self._world = World(values["users.count"], values["items.count"], values["pages.count"])
        self._last: int = values["iterations"]
        self._rate: float = values["rate"]
        self._gap_ms: int = values["max.interval"]
        self._partition = {"quickstart": values["quickstart"], "task": self._number}
        offset = self.context.offset(self._partition)
        self._next: int = offset.get("iteration", 0)
        given = values["start.time.ms"]
        self._begin: int = offset.get("start", int(time.time() * 1000) if given < 0 else given)
        self._due = time.monotonic()

    def poll(self) -> list[SourceRecord] | None:
        """Return the rows that are due; None after a second without any, and once all have been made."""
        if 0 <= self._last <= self._next:
            self._stopping.wait(WAIT_S)
            return None
        now = time.monotonic()
        if self._due > now and self._stopping.wait(min(self._due - now, WAIT_S)):
            return None
        now = time.monotonic()
        rows: list[SourceRecord] = []
        while self._due <= now and len(rows) < ROWS_MAX and not 0 <= self._last <= self._next:
            rows.append(self._record(self._next))
            self._next += 1
            self._due += self._gap(self._next)
        if not self._pausing:
            self._due = now
        if 0 <= self._last <= self._next:
            log.info("all %d rows for topic %s have been made", self._last, self._topic)
        return rows or None

    @property
    def _pausing(self) -> bool:
        return self._rate > 0 or self._gap_ms > 0

    def _gap(self, number: int) -> float:
        """Return how long a row comes after the one before (seconds)."""
        if self._rate > 0:
            return 1 / self._rate
        return Draw(~self._seed, number).below(self._gap_ms + 1) / 1000

    def _record(self, number: int) -> SourceRecord:
        step_ms = 1000 / self._rate if self._rate > 0 else self._gap_ms / 2
        time_ms = self._begin + int(number * step_ms)
        row = self._kind.row(self._world, self._seed, self._number * TASK_IDS + number, time_ms)
        return SourceRecord(
            topic=self._topic,
            key_schema=data.STRING,
            key=str(row.get(self._kind.key)),
            value_schema=self._kind.schema,
            value=row,
            source_partition=self._partition,
            source_offset={"iteration": number + 1, "start": self._begin},
        )

    def stop(self) -> None:
        """End a poll that waits."""
        self._stopping.set()


def _definition() -> ConfigDef:
    high, medium, low = Importance.HIGH, Importance.MEDIUM, Importance.LOW
    kinds = validators.ValidString(*KINDS, *ALIASES)
    found = ConfigDef()
    found.define(
        "kafka.topic",
        ConfigType.STRING,
        importance=high,
        doc="The topic to write to.",
        validator=validators.NonEmptyString(),
    )
    found.define(
        "quickstart",
        ConfigType.STRING,
        "orders",
        importance=high,
        doc="What to make up: orders, users, pageviews, or clicks (also called clickstream).",
        validator=kinds,
    )
    numbers: tuple[tuple[str, ConfigType, Any, Importance, Any, str], ...] = (
        (
            *("max.interval", ConfigType.LONG, 500, high, validators.Range(0)),
            "The longest time between two rows (ms); times are drawn from 0 to this. 0: no pause at all.",
        ),
        (
            *("rate", ConfigType.DOUBLE, 0, medium, validators.Range(0)),
            "Rows in a second, of each task, evenly; 0: as max.interval says.",
        ),
        (
            *("iterations", ConfigType.LONG, -1, high, validators.Range(-1)),
            "How many rows each task makes; then it waits. -1: no end.",
        ),
        (
            *("random.seed", ConfigType.LONG, 0, medium, None),
            "The same seed gives the same rows; each task adds its number.",
        ),
        (
            *("start.time.ms", ConfigType.LONG, -1, low, validators.Range(-1)),
            "The time in the first row (ms since 1970); later rows are the mean interval apart. -1: when the task first "
            "starts.",
        ),
        ("users.count", ConfigType.INT, 100, low, validators.Range(1), "How many users there are."),
        ("items.count", ConfigType.INT, 1000, low, validators.Range(1), "How many items there are."),
        ("pages.count", ConfigType.INT, 100, low, validators.Range(1), "How many pages there are."),
    )
    for name, type_, default, importance, rule, doc in numbers:
        found.define(name, type_, default, importance=importance, doc=doc, validator=rule)
    own = "Set for each task by the connector."
    return found.define(NUMBER, ConfigType.INT, 0, importance=low, doc=own, internal=True)


class GeneratorSourceConnector(SourceConnector):
    """Makes up orders, users, page views or clicks."""

    aliases: ClassVar[tuple[str, ...]] = (
        "io.confluent.kafka.connect.datagen.DatagenConnector",
        "DatagenConnector",
        "Datagen",
    )
    version: ClassVar[str] = STOCK_VERSION
    task_class: ClassVar[type[Any]] = GeneratorSourceTask
    config_def: ClassVar[ConfigDef] = _definition()

    def start(self, props: Mapping[str, str]) -> None:
        """Hold the configuration against its keys; raises ConfigError."""
        self.config_def.parse(props)
        super().start(props)

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong with each key; rows of a schema of one's own are refused."""
        found = super().validate(props)
        for name in NOT_HERE:
            if props.get(name):
                text = f"'{name}' is not supported: rows are of one of the kinds that 'quickstart' names"
                found[name] = ConfigValue(name, props[name], errors=[text])
        return found

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return a configuration for each of `tasks_max` tasks."""
        return [{**self.props, NUMBER: str(number)} for number in range(tasks_max)]

    def exactly_once_support(self, props: Mapping[str, str]) -> bool:
        """Return True: an offset is the number of the next row."""
        return True

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Refuse what is no number of a row; anything may be forgotten."""
        for _, offset in offsets:
            number = 0 if offset is None else offset.get("iteration")
            if type(number) is not int or number < 0:
                raise ConnectError("an offset needs the key 'iteration', the number of the next row, from 0 on")
        return True
