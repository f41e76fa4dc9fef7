"""Small topologies written out, records by hand, and a backend in a dictionary: what the engine's tests stand on."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.streams import ProcessorNode, SinkNode, SourceNode, StoreSpec, Topology
from ottla.streams.engine import EngineSettings, Executor, Output, Progress, Record, StoreChange


@dataclass(frozen=True)
class Codec:
    """A serde of two functions."""

    name: str
    to_bytes: Callable[[Any], bytes]
    of_bytes: Callable[[bytes], Any]
    sql_type: str | None = None

    def serialize(self, value: Any) -> bytes | None:
        return None if value is None else self.to_bytes(value)

    def deserialize(self, data: bytes | None) -> Any:
        return None if data is None else self.of_bytes(data)

    def sql_decode(self, column: str) -> str:
        return column

    def sql_encode(self, column: str) -> str:
        return column


STRING = Codec("string", str.encode, bytes.decode)
LONG = Codec("long", lambda value: struct.pack(">q", value), lambda data: struct.unpack(">q", data)[0])
JSON = Codec("json", lambda value: json.dumps(value).encode(), json.loads)


class Backend(dict[str, bytes]):
    """Blobs in a dictionary."""

    def put(self, blob: str, data: bytes | None) -> None:
        if data is None:
            self.pop(blob, None)
        else:
            self[blob] = data


def topology(*nodes: SourceNode | ProcessorNode | SinkNode, stores: Iterable[StoreSpec] = ()) -> Topology:
    return Topology({node.name: node for node in nodes}, {store.name: store for store in stores})


def source(name: str = "source", key: Any = STRING, value: Any = STRING) -> SourceNode:
    return SourceNode(name, (name,), key=key, value=value)


def sink(parent: str, key: Any = STRING, value: Any = STRING, name: str = "sink") -> SinkNode:
    return SinkNode(name, name, (parent,), key=key, value=value)


def step(name: str, operation: Any, parent: str, *stores: str) -> ProcessorNode:
    return ProcessorNode(name, operation, (parent,), stores)


def record(key: str | None, value: str | None, timestamp: int, **fields: Any) -> Record:
    return Record(None if key is None else key.encode(), None if value is None else value.encode(), timestamp, **fields)


class Run:
    """A topology that takes batches; `reload` makes a new executor for each, as a restart would."""

    def __init__(
        self, plan: Topology, *, cache: bool = False, reload: bool = False, block_entries: int = 512, **settings: Any
    ) -> None:
        self.plan = plan
        self.backend = Backend()
        self.settings = EngineSettings(cache=cache, block_entries=block_entries, **settings)
        self.reload = reload
        self.executor = self._new()
        self.changes: list[StoreChange] = []
        self.progress = Progress()

    def _new(self) -> Executor:
        return Executor(
            self.plan, list(self.plan.nodes), self.backend, task=0, settings=self.settings, application_id="app"
        )

    def batch(self, records: Sequence[Record], source: str = "source") -> list[Output]:
        if self.reload:
            self.executor = self._new()
        self.executor.process(source, records)
        return self.finish()

    def finish(self) -> list[Output]:
        outputs, changes, self.progress = self.executor.finish_batch()
        self.changes += changes
        return outputs

    def rows(
        self, records: Sequence[Record], source: str = "source", key: Codec = STRING, value: Codec = STRING
    ) -> list[tuple[Any, Any, int]]:
        """Return (key, value, timestamp) of what a batch puts out."""
        return [
            (key.deserialize(each.key), value.deserialize(each.value), each.timestamp)
            for each in self.batch(records, source)
        ]
