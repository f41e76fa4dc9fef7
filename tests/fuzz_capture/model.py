"""A reader of a capture's topics: the last row of each key, and for tables without a key the rows that are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.connect import SourceRecord
from tests.fuzz_capture.values import number, told_row

__all__ = ["COUNT", "Model", "Row", "Table", "differences"]

COUNT = "n_"
"""Of each row: the step that wrote it. What was told before a table's last DDL is not comparable with it any more."""
Row = Mapping[str, Any]
Key = tuple[tuple[str, Any], ...]
SHOWN_MAX = 3
NOT_SENT = "__debezium_unavailable_value"
"""In place of a toasted value that an update has not changed: a reader keeps the one that it has."""
_NOT_SENT = frozenset((NOT_SENT, NOT_SENT.encode().hex(), (NOT_SENT,)))


@dataclass
class Topic:
    """What is left of one topic."""

    keyed: dict[Key, Row] = field(default_factory=dict)
    loose: list[Row] = field(default_factory=list)
    """Of records without a key."""
    carried: dict[Key, Mapping[str, int]] = field(default_factory=dict)
    """Of rows by key the columns that the last record has not sent, with the step of the record that has."""

    def take(self, key: Row | None, op: str, before: Row | None, after: Row | None) -> None:
        """Take one change."""
        if after is not None:
            after = self._whole(key, before, after)
        if op == "t":
            self.keyed.clear()
            self.loose.clear()
            self.carried.clear()
        elif key is None:
            if op in "ud" and before in self.loose:
                self.loose.remove(before)
            if after is not None:
                self.loose.append(after)
        elif after is None:
            self.keyed.pop(tuple(key.items()), None)
            self.carried.pop(tuple(key.items()), None)
        else:
            self.keyed[tuple(key.items())] = after

    def _whole(self, key: Row | None, before: Row | None, after: Row) -> Row:
        """Return a row with the values that were not sent as they were, and keep which step has sent them."""
        if before or key is None:
            return _kept(after, before)
        name = tuple(key.items())
        old, sent = self.keyed.get(name), self.carried.get(name, {})
        missing = [each for each, value in after.items() if value in _NOT_SENT]
        self.carried[name] = {} if old is None else {each: sent.get(each, _at(old)) for each in missing}
        return _kept(after, old)

    def behind(self, step: int) -> Topic:
        """Return the topic without values that were sent before a step, by which a column's name was another's."""
        keyed = {
            key: {
                name: NOT_SENT if self.carried.get(key, {}).get(name, step) < step else value
                for name, value in row.items()
            }
            for key, row in self.keyed.items()
        }
        return Topic(keyed, self.loose)

    @property
    def rows(self) -> list[Row]:
        """All that are left."""
        return [*self.keyed.values(), *self.loose]

    def since(self, step: int) -> list[Row]:
        """Those that were written by a step or later."""
        return [row for row in self.rows if _at(row) >= step]


def _kept(after: Row, old: Row | None) -> Row:
    """Return a row with the values that were not sent as they were."""
    return {
        name: old.get(name, value) if old is not None and value in _NOT_SENT else value for name, value in after.items()
    }


@dataclass
class Model:
    """All topics of a capture."""

    prefix: str
    topics: dict[str, Topic] = field(default_factory=dict)
    count: int = 0
    ends: set[str] = field(default_factory=set)
    """What the table of ends has told."""

    def take(self, records: Sequence[SourceRecord]) -> None:
        """Take what a poll has found, in order."""
        for each in records:
            name = each.topic or ""
            if each.value is None or not name.startswith(f"{self.prefix}.") or "op" not in _names(each.value):
                continue
            self.count += 1
            before, after = (
                None if (row := each.value[name]) is None else told_row(row) for name in ("before", "after")
            )
            key = None if each.key is None else told_row(each.key)
            table = name.split(".", 2)[-1]
            self.topics.setdefault(table, Topic()).take(key, each.value["op"], before, after)
            if table == "ends_" and after is not None:
                self.ends.add(after["id"])


def _names(value: Any) -> Sequence[str]:
    return [each.name for each in value.schema.struct_fields]


@dataclass(frozen=True)
class Table:
    """A table as the server has it."""

    name: str
    columns: tuple[str, ...]
    types: Mapping[str, str]
    key: tuple[str, ...]
    rows: Sequence[Row] = ()
    left_out: frozenset[str] = frozenset()
    """Columns of types that are not told."""


def differences(table: Table, topic: Topic, since: int) -> list[str]:
    """Return what differs between a table and its topic, of rows that the step `since` or a later one has written."""
    topic = topic.behind(since)
    has = [{name: row[name] for name in row if name not in table.left_out} for row in table.rows if _at(row) >= since]
    tells = [_sent(table, _as_typed(table, row), has) for row in topic.since(since)]
    found = []
    if table.key and topic.loose and any(_at(row) >= since for row in topic.loose):
        found.append(f"{table.name}: rows without the key {table.key} were told")
    if table.key and not found:
        found += _by_key(table, topic, has, since)
    by_text = {_text(row) for row in has}
    by_told = {_text(row) for row in tells}
    if not found:
        found += [
            f"{table.name}: the server has, and nothing told, {_shown(row)}" for row in has if _text(row) not in by_told
        ]
        found += [
            f"{table.name}: told, and the server has not, {_shown(row)}" for row in tells if _text(row) not in by_text
        ]
        if not found and len(has) != len(tells):
            found.append(f"{table.name}: {len(has)} rows, and {len(tells)} told")
    return found[:SHOWN_MAX]


def _sent(table: Table, row: Row, has: Sequence[Row]) -> Row:
    """Return a row whose values that no record of this topic has sent are the server's: a table was renamed since."""
    if not table.key or not any(value in _NOT_SENT for value in row.values()):
        return row
    same = next((each for each in has if all(each.get(name) == row.get(name) for name in table.key)), row)
    return {name: same.get(name, value) if value in _NOT_SENT else value for name, value in row.items()}


def _by_key(table: Table, topic: Topic, has: Sequence[Row], since: int) -> list[str]:
    found = []
    keyed = {tuple(_as_typed(table, dict(key)).items()): told for key, told in topic.keyed.items()}
    for row in has:
        key = tuple((name, row.get(name)) for name in table.key if name in row)
        tells = keyed.get(key)
        if tells is None:
            keys = {tuple(name for name, _ in each) for each, told in topic.keyed.items() if _at(told) >= since}
            found.append(
                f"{table.name}: the server has {dict(key)!r:.200}, which is not told (keys told: {sorted(keys)})"
            )
        elif list(tells := _as_typed(table, tells)) != list(row):
            found.append(f"{table.name}: columns {list(row)}, told {list(tells)}")
        else:
            found += [
                f"{table.name}.{name} ({table.types.get(name)}) where {dict(key)!r:.120}: "
                f"the server has {row[name]!r:.200}, told {tells[name]!r:.200}"
                for name in row
                if row[name] != tells[name] and tells[name] not in _NOT_SENT
            ]
    return found


def _as_typed(table: Table, row: Row) -> Row:
    """Return a row whose numbers that were told as texts are numbers."""
    return {
        name: number(value)
        if isinstance(value, str) and table.types.get(name, "").startswith(("numeric", "money"))
        else value
        for name, value in row.items()
        if name not in table.left_out
    }


def _at(row: Row) -> int:
    value = row.get(COUNT)
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else -1


def _text(row: Row) -> str:
    return repr(sorted(row.items()))


def _shown(row: Row) -> str:
    return f"{dict(row)!r:.300}"
