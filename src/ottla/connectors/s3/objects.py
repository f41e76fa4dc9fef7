"""Which objects of a bucket are read, by which task, and in which order."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from ottla.connectors.s3.client import expecting
from ottla.connectors.storage import FileName, Names, Part
from ottla.java import JavaPattern

__all__ = ["Found", "Layout", "Prefix", "ReadObject", "SinkLayout", "listed", "mine", "settled"]


@dataclass(frozen=True, slots=True)
class Found:
    """An object of the bucket."""

    key: str
    age: timedelta
    """Since it was written, by the store's clock."""


@dataclass(slots=True)
class ReadObject:
    """What is read as one: an object, and the objects of keys and headers that belong to its records."""

    topic: str
    partition: int | None
    group: str
    """Objects of one group are read by one task, in order."""

    order: tuple[Any, ...]
    """Where it stands in its group."""

    share: int
    """What is divided by the number of tasks to find the group's."""

    keys: dict[str, str] = field(default_factory=dict)
    """The object of each part: values, keys, headers."""

    age: timedelta = timedelta.max
    """Of the youngest of its objects."""

    @property
    def name(self) -> str:
        """The object that offsets are stored for: of the values where there is one."""
        return self.keys.get(Part.VALUE) or self.keys[Part.KEYS]


def listed(client: Any, bucket: str, prefix: str) -> Iterator[Found]:
    """Yield the objects under a prefix by name; raises ConnectError, RetriableError."""
    token: dict[str, str] = {}
    while True:
        page = expecting(
            lambda: f"Cannot list s3://{bucket}/{prefix}",
            lambda: client.list_objects_v2(Bucket=bucket, Prefix=prefix, **token),  # noqa: B023
        )
        now = _time_of(page)
        for each in page.get("Contents", ()):
            if each["Size"] or not each["Key"].endswith("/"):
                age = timedelta.max if now is None else now - each["LastModified"]
                yield Found(each["Key"], age)
        if not page.get("IsTruncated"):
            return
        token = {"ContinuationToken": page["NextContinuationToken"]}


def _time_of(page: dict[str, Any]) -> datetime | None:
    """Return the store's time, from the answer's header."""
    text = page["ResponseMetadata"]["HTTPHeaders"].get("date")
    return None if text is None else parsedate_to_datetime(text)


class Layout:
    """How objects are told apart. `prefix` is what all names begin with."""

    prefix: str

    def arranged(self, found: Iterable[Found]) -> list[ReadObject]:
        """Return what is read, in order within each group."""
        raise NotImplementedError


class SinkLayout(Layout):
    """Names that the sink has made: topic and partition are in them. `parts` are expected besides the values."""

    def __init__(self, names: Names, *, keys: bool, headers: bool, tombstones: str) -> None:
        self._names, self._tombstones = names, tombstones
        self._parts = [part for part, wanted in ((Part.KEYS, keys), (Part.HEADERS, headers)) if wanted]
        self.prefix = f"{names.topics_dir}{names.directory_delimiter}" if names.topics_dir else ""

    def arranged(self, found: Iterable[Found]) -> list[ReadObject]:
        """See `Layout`: an object whose keys or headers are not there yet is left for the next time."""
        whole: dict[tuple[str, str, int, int, str], ReadObject] = {}
        for each in found:
            name = self._names.parse(each.key)
            if name is None or (name.part != Part.VALUE and name.part not in self._parts):
                continue
            made = whole.setdefault(name.siblings, _object_of(name))
            made.keys[name.part] = each.key
            made.age = min(made.age, each.age)
        ready = [each for siblings, each in whole.items() if self._is_whole(each, siblings[-1])]
        return sorted(ready, key=lambda each: (each.group, each.order))

    def _is_whole(self, each: ReadObject, path: str) -> bool:
        needed = self._parts if path == self._tombstones else [Part.VALUE, *self._parts]
        return bool(needed) and all(part in each.keys for part in needed)


def _object_of(name: FileName) -> ReadObject:
    share = zlib.crc32(name.topic.encode()) + name.partition
    group = f"{name.topic}-{name.partition}" + (f" {name.origin}" if name.origin else "")
    return ReadObject(name.topic, name.partition, group, (name.offset, name.path), share)


class Prefix(Layout):
    """Any names under a prefix; the first expression that finds itself in a name says which topic it is for."""

    def __init__(self, prefix: str, topics: list[tuple[str, JavaPattern]], delimiter: str) -> None:
        self.prefix, self._topics, self._delimiter = prefix, topics, delimiter

    def arranged(self, found: Iterable[Found]) -> list[ReadObject]:
        """See `Layout`: objects of one directory are one group, in the order of their names."""
        made = []
        for each in found:
            topic = next((topic for topic, pattern in self._topics if pattern.search(each.key)), None)
            if topic is not None:
                directory = each.key.rpartition(self._delimiter)[0]
                share = zlib.crc32(directory.encode())
                made.append(ReadObject(topic, None, directory, (each.key,), share, {Part.VALUE: each.key}, each.age))
        return sorted(made, key=lambda one: (one.group, one.order))


def mine(objects: Iterable[ReadObject], task: int, tasks: int) -> list[ReadObject]:
    """Return the objects whose groups are a task's."""
    return [each for each in objects if each.share % tasks == task]


def settled(objects: Iterable[ReadObject], at_least: timedelta, known: Callable[[str], bool]) -> list[ReadObject]:
    """Return the objects that are old enough, of each group up to the first that is not.

    A sink may store several objects at once, so that for a moment a later one is there and an earlier one is not.
    """
    waiting: set[str] = set()
    ready = []
    for each in objects:
        if each.group in waiting or (each.age < at_least and not known(each.name)):
            waiting.add(each.group)
        else:
            ready.append(each)
    return ready
