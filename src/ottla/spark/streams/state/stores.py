"""Interactive queries: an application's stores as its changelog topics tell them, kept up to date by a reader.

Any process can ask, beside the application or elsewhere: what a store holds stands in its changelog. The reader sees only
what was committed, so an answer under exactly once is one that the outputs agree with; it carries the offsets that it
reflects and how many records it has not seen yet.
"""

from __future__ import annotations

import logging
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from ottla.background import count_failure, supervise_thread
from ottla.base import ErrorCode, KafkaError, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, FetchPosition, Isolation
from ottla.spark.streams.internal_topics import changelog_topic
from ottla.spark.streams.secured import driver_network
from ottla.spark.streams.state.store_tables import LAST, Entry, LoggedEntry, StoreTable
from ottla.streams import SourceNode, StoreSpec, StreamsSettings, Topology, Windowed
from ottla.wire import ColumnDecoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client import Fetched
    from ottla.wire import Columns

__all__ = ["Position", "StoreReader", "StoreView", "log_topic"]

log = logging.getLogger(__name__)
T = TypeVar("T")
WAIT_MS = 200
"""How long a Fetch waits for records; a lookup never waits for one."""
CAUGHT_UP_SECONDS_MAX = 60.0
RETRY_SECONDS = 1.0
ABSENCES_MAX = 3
"""After how many looks for a topic that is not there who asks its store is told; an application makes its own early."""
FETCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Position:
    """What an answer reflects: the next offset of each partition of the changelog, and the records behind it."""

    offsets: Mapping[int, int]
    lag: int

    def facts(self) -> dict[str, Any]:
        """Return it fit for JSON."""
        return {"offsets": {str(index): offset for index, offset in sorted(self.offsets.items())}, "lag": self.lag}


@dataclass
class _Followed:
    """A store that is read."""

    table: StoreTable
    topic: str
    offsets: dict[int, Offset] = field(default_factory=dict)
    ends: dict[int, Offset] = field(default_factory=dict)
    caught_up: bool = False
    absences: int = 0
    """How often its topic was looked for and not there."""

    def position(self) -> Position:
        lag = sum(max(0, end - self.offsets.get(index, Offset(0))) for index, end in self.ends.items())
        return Position(dict(self.offsets), lag)


def log_topic(topology: Topology, application_id: str, name: str) -> str:
    """Return the topic that tells a store's entries; raises KafkaError where none does."""
    spec = topology.stores.get(name)
    if spec is None:
        known = ", ".join(sorted(topology.stores)) or "none"
        words = f"Cannot get state store {name} because no such store is registered in the topology (stores: {known})."
        raise KafkaError(ErrorCode.INVALID_REQUEST, words)
    if spec.source_topic is not None:
        return spec.source_topic
    if spec.is_global:
        for node in topology.nodes.values():
            if name in getattr(node, "stores", ()):
                source = topology.nodes[node.parents[0]]  # type: ignore[union-attr]  # a global store's processor
                if isinstance(source, SourceNode):
                    return source.topics[0]
    if not spec.logged:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"store {name} has no changelog (logging disabled), so it is not told"
        )
    return changelog_topic(application_id, name)


class Asked(Protocol):
    """Whoever has stores' tables and keeps them up to date."""

    def ask(self, name: str, question: Callable[[StoreTable], T], wait_s: float) -> tuple[T, Position]:
        """Answer from a store's table; raises KafkaError where it cannot be read."""


class StoreReader:
    """Reads changelogs into a database of its own, in a thread; `view` begins with a store that is asked for."""

    def __init__(self, topology: Topology, settings: StreamsSettings) -> None:
        self._topology = topology
        self._settings = settings
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-stores-")
        self._database = sqlite3.connect(f"{self._folder.name}/stores.db", check_same_thread=False)
        self._database.execute("pragma journal_mode = off")
        self._database.execute("pragma synchronous = off")
        self._stores: dict[str, _Followed] = {}
        self._changed = threading.Condition()
        """Guards the database and what is known of the stores."""
        self._closed = False
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    def view(self, name: str) -> StoreView:
        """Return a store to look into; raises KafkaError for a name that is none."""
        with self._changed:
            if name not in self._stores:
                topic = log_topic(self._topology, self._settings.application_id, name)
                table = StoreTable(self._database, self._topology.stores[name], len(self._stores))
                self._stores[name] = _Followed(table, topic)
            if self._thread is None:
                self._thread = supervise_thread(self._follow, name="ottla-stores", serves="who looks into stores")
        return StoreView(self, name, self._topology.stores[name])

    def ask(self, name: str, question: Callable[[StoreTable], T], wait_s: float) -> tuple[T, Position]:
        """Answer from a store's table once it was read to its end.

        Raises KafkaError where that takes too long, or where its topic is not there at the third look.
        """
        with self._changed:
            store = self._stores[name]
            absences = store.absences + ABSENCES_MAX
            self._changed.wait_for(lambda: store.caught_up or self._closed or store.absences >= absences, wait_s)
            if not store.caught_up or self._closed:
                because = f": {self._error}" if self._error is not None else ""
                words = f"store {name} is not read yet from {store.topic}{because}"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, words)
            return question(store.table), store.position()

    def close(self) -> None:
        """End the reader and remove its database."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._database.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the thread

    def _follow(self) -> None:
        while not self._closed:
            try:
                name = f"{self._settings.application_id}-stores"
                network = driver_network(self._settings)
                with BlockingClient(self._settings.bootstrap_servers, client_id=name, network=network) as client:
                    while not self._closed:
                        self._round(client)
                        self._error = None
            except Exception as error:  # said, and who asks a store hears of it meanwhile
                if not isinstance(error, KafkaError):
                    log.exception("the reader of changelogs failed and begins again")
                    count_failure("stores of Streams")
                self._error = error
                with self._changed:
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._closed, RETRY_SECONDS)

    def _round(self, client: BlockingClient) -> None:
        """Begin with new stores, fetch once, and take in what came."""
        with self._changed:
            stores = list(self._stores.values())
        for store in stores:
            if not store.ends:
                self._begin(client, store)
        positions = [
            FetchPosition(TopicPartition(store.topic, index), offset, FETCH_BYTES)
            for store in stores
            for index, offset in store.offsets.items()
        ]
        waits = all(store.caught_up for store in stores)
        answers = client.fetch(positions, max_wait_ms=WAIT_MS if waits else 0, isolation=Isolation.READ_COMMITTED)
        by_topic: dict[str, list[_Followed]] = {}
        for store in stores:
            by_topic.setdefault(store.topic, []).append(store)
        with self._changed:
            for fetched in answers:
                for store in by_topic[fetched.partition.topic]:
                    self._take_in(client, store, fetched)
            self._database.commit()
            for store in stores:
                store.caught_up = store.caught_up or store.position().lag == 0
            self._changed.notify_all()

    def _begin(self, client: BlockingClient, store: _Followed) -> None:
        partitions = client.metadata([store.topic]).partitions_of(store.topic)
        if not partitions:
            store.absences += 1
            words = f"topic {store.topic} is not there: the application has not been started yet"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, words)
        begin = client.list_offsets(dict.fromkeys(partitions, EARLIEST))
        end = client.list_offsets(dict.fromkeys(partitions, LATEST), isolation=Isolation.READ_COMMITTED)
        with self._changed:
            store.offsets = {each.partition: begin[each].offset for each in partitions}
            store.ends = {each.partition: end[each].offset for each in partitions}

    def _take_in(self, client: BlockingClient, store: _Followed, fetched: Fetched) -> None:
        index = fetched.partition.partition
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            found = client.list_offsets({fetched.partition: EARLIEST})
            store.offsets[index] = found[fetched.partition].offset
            return
        fetched.check()
        decoded = ColumnDecoder().decode(fetched.records, start=fetched.offset, aborted=fetched.aborted)
        for columns in decoded.columns:
            store.table.apply(_entries(columns))
        store.offsets[index] = max(store.offsets[index], decoded.next_offset)
        store.ends[index] = max(store.offsets[index], fetched.last_stable_offset)


def _entries(columns: Columns) -> Iterator[LoggedEntry]:
    """Yield a block's records that have a key, as objects."""
    times = columns.timestamps_ms.tolist()
    for key, value, timestamp in zip(columns.keys(), columns.values(), times, strict=True):
        if key is not None:
            yield LoggedEntry(key, value, timestamp)


class StoreView:
    """One store, to look into: answers are values of its serdes, and None or nothing where there is no entry.

    Every lookup waits, `wait_s` at most, until the changelog was read to its end once. `position` tells what the last
    answer reflected.
    """

    def __init__(self, reader: Asked, name: str, spec: StoreSpec, *, wait_s: float = CAUGHT_UP_SECONDS_MAX) -> None:
        self.name = name
        self.spec = spec
        self.wait_s = wait_s
        self.position = Position({}, 0)
        """The changelog's offsets that the last answer reflects, and how many records it had not seen."""
        self._reader = reader

    def get(self, key: Any, *, as_of_ms: int | None = None) -> Any:
        """Return a key's value, or None; of a versioned store the one that was valid at a time."""
        found = self.entry(key, as_of_ms=as_of_ms)
        return None if found is None else found[1]

    def entry(self, key: Any, *, as_of_ms: int | None = None) -> tuple[Any, Any, int] | None:
        """Return (key, value, timestamp in milliseconds), or None."""
        if "window" in self.spec.kind or "session" in self.spec.kind:
            words = f"store {self.name} is of kind {self.spec.kind}; use fetch or sessions"
            raise KafkaError(ErrorCode.INVALID_REQUEST, words)
        data = self.key_bytes(key)
        found = self._ask(lambda table: table.get(data, LAST if as_of_ms is None else as_of_ms))
        return None if found is None else self._decoded(found)

    def all(self, *, reverse: bool = False, limit: int = -1) -> list[tuple[Any, Any]]:
        """Return every (key, value) in the order of the keys' bytes; keys of windowed stores are `Windowed`."""
        return self.range(None, None, reverse=reverse, limit=limit)

    def range(self, low: Any, high: Any, *, reverse: bool = False, limit: int = -1) -> list[tuple[Any, Any]]:
        """Return (key, value) for keys from `low` to `high`, both included, in the order of their bytes."""
        first = None if low is None else self.key_bytes(low)
        last = None if high is None else self.key_bytes(high)
        return self._pairs(lambda table: table.range(first, last, reverse=reverse, limit=limit))

    def prefix(self, prefix: Any, *, reverse: bool = False, limit: int = -1) -> list[tuple[Any, Any]]:
        """Return (key, value) for keys whose bytes begin with those of `prefix` (`prefixScan`)."""
        data = prefix if isinstance(prefix, bytes) else self.key_bytes(prefix)
        return self._pairs(lambda table: table.prefix(data, reverse=reverse, limit=limit))

    def fetch(
        self, key: Any, from_ms: int = 0, to_ms: int = LAST, *, reverse: bool = False, limit: int = -1
    ) -> list[tuple[Windowed[Any], Any]]:
        """Return (window, value) of a window store for windows that start from `from_ms` to `to_ms`; key None: of all."""
        self._need(window=True)
        data = None if key is None else self.key_bytes(key)
        return self._pairs(lambda table: table.windows(data, from_ms, to_ms, reverse=reverse, limit=limit))

    def sessions(
        self, key: Any, earliest_end_ms: int = 0, latest_start_ms: int = LAST, *, reverse: bool = False, limit: int = -1
    ) -> list[tuple[Windowed[Any], Any]]:
        """Return (session, value) of a session store for sessions that touch a span of time; key None: of all."""
        self._need(window=False)
        data = None if key is None else self.key_bytes(key)
        return self._pairs(
            lambda table: table.sessions(data, earliest_end_ms, latest_start_ms, reverse=reverse, limit=limit)
        )

    def __len__(self) -> int:
        return self._ask(lambda table: table.count())

    def key_bytes(self, key: Any) -> bytes:
        """Return a key as the store has it."""
        data = self.spec.key.serialize(key)
        if data is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"store {self.name} has no null keys")
        return data

    def _need(self, *, window: bool) -> None:
        is_right = ("window" if window else "session") in self.spec.kind
        if not is_right:
            wanted = "fetch is for window stores" if window else "sessions is for session stores"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"store {self.name} is of kind {self.spec.kind}; {wanted}")

    def _pairs(self, question: Callable[[StoreTable], Iterator[Entry]]) -> list[tuple[Any, Any]]:
        return [self._decoded(entry)[:2] for entry in self._ask(lambda table: list(question(table)))]

    def _decoded(self, entry: Entry) -> tuple[Any, Any, int]:
        key = self.spec.key.deserialize(entry.key)
        if entry.start >= 0:
            key = Windowed(key, entry.start, entry.end)
        return key, self.spec.value.deserialize(entry.value), entry.timestamp

    def _ask(self, question: Callable[[StoreTable], T]) -> T:
        found, self.position = self._reader.ask(self.name, question, self.wait_s)
        return found
