"""What the file connectors are given, and what they make of it: in Apache Kafka's worker, and in our loop.

`python -m tests.spark.file_cases` asks Apache Kafka Connect and writes the facts.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from ottla.client import BlockingClient
from ottla.connect.storage import State
from ottla.connectors.files import FileStreamSinkConnector, FileStreamSourceConnector
from tests.peer.connect.worker import running_worker
from tests.ports import free_port
from tests.server import running_server
from tests.spark.conftest import create_topic
from tests.spark.running import Port, await_true, records_of, running, spec_of

__all__ = ["FACTS", "SINKS", "SOURCES", "Kafka", "Ottla", "asked", "sink_answers", "source_answers", "theirs"]

FACTS = Path(__file__).parent / "facts" / "files.json"
BROKER = ["group.initial.rebalance.delay.ms=0"]
ARRIVAL_S = 8.0
"""How long records are waited for that may never come."""

STRING = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
BYTES = {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
PLAIN_JSON = {**JSON, "value.converter.schemas.enable": "false"}
KEYS = {"key.converter": "org.apache.kafka.connect.storage.StringConverter"}

Step = bytes | int | None
"""What a writer appends; how many records are waited for; None: the connector is stopped and resumed."""

Answer = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A file that grows."""

    steps: Sequence[Step]
    config: Mapping[str, str] = field(default_factory=lambda: STRING)
    before: bytes | None = None
    """What the file holds when the connector begins; None: it is not there."""


LINES = 'eins\nzwei ä\r\ndrei €\rvier 😀\n\n\r\n\r\n\nTab\t\0 "quoted" \\ </>\n'.encode()
SOURCES: dict[str, Source] = {
    "string": Source([9], STRING, LINES),
    "json": Source([9], PLAIN_JSON, LINES),
    "json with schemas": Source([9], JSON, LINES),
    "string keys": Source([9], {**STRING, **KEYS}, LINES),
    "bytes": Source([], BYTES, LINES),
    "empty": Source([], before=b""),
    "missing at first": Source([b"here\n", 1]),
    "a last line without its end": Source([1, b"lf\nla", 2, b"st", b"\n", 3], before=b"one\nha"),
    "a return at the end": Source([1, b"\ntwo\r", 2, b"three\n", 4], before=b"zero\none\r"),
    "returns": Source([7], before=b"\r\r\n\r\n\n\ra\r\rb\n"),
    "other ends of lines": Source([1], before="a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\n".encode()),
    "byte order mark": Source([2], before=b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n"),
    "long lines": Source([3], before=b"x" * 1023 + b"\n" + b"y" * 2100 + b"\r\n" + b"z" * 1024 + b"\n"),
    "appended": Source([2, b"three\nfour\n", 4, b"five\n", 5], before=b"one\ntwo\n"),
    "stopped and resumed": Source([2, None, b"three\n", 3, None, b"four\n", 4], before=b"one\ntwo\n"),
    "resumed within a line": Source([1, None, b"lf\n", 2], before=b"one\nha"),
    "resumed behind other letters": Source([2, None, "drei ö\n".encode(), 3], before="eins ä\nzwei €\n".encode()),
    "no text": Source(
        [9],
        before=b"\xff\xfe\n\xe2\x82A\n\xf0\x9f\x98\n\xed\xa0\x80\n\xc0\xaf\n\xf4\x90\x80\x80\n\xf8\x88\x80\x80\x80\n"
        b"\xe0\x80\x80\n\xed\xa0\x80\xed\xb0\x80 end\n",
    ),
    "batches": Source([5], {**STRING, "batch.size": "2"}, b"1\n2\n3\n4\n5\n"),
    "batches of a file that grows": Source([2, b"4\n", 4], {**STRING, "batch.size": "2"}, b"1\n2\n3\n"),
}


@dataclass(frozen=True)
class Sink:
    """Values that stand in a topic, and what the file holds already."""

    values: Sequence[bytes | None]
    config: Mapping[str, str] = field(default_factory=lambda: STRING)
    before: bytes | None = None


VALUES = [
    *(b'"text"', b'""', '"ä € 😀"'.encode(), b'"two\\nlines"', b"1", b"-7", b"12345678901", b"1.0", b"1.5e300", b"0.1"),
    *(b"true", b"null", b"[]", b"{}", b'[1,"a",null,[2.5]]', b'{"a":1,"b":"two","c":null,"d":{"e":[true]}}', None),
]
STRUCT = {
    "type": "struct",
    "fields": [
        {"field": "i", "type": "int32"},
        {"field": "f", "type": "float"},
        {"field": "d", "type": "double"},
        {"field": "s", "type": "string", "optional": True},
        {"field": "l", "type": "array", "items": {"type": "int64"}},
        {"field": "m", "type": "map", "keys": {"type": "string"}, "values": {"type": "boolean"}},
    ],
}
DAY = {"type": "int32", "name": "org.apache.kafka.connect.data.Date"}
DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
TYPED: list[tuple[Any, Any]] = [
    ({"type": "string"}, "text ä"),
    ({"type": "string", "optional": True}, None),
    ({"type": "int8"}, 5),
    ({"type": "float"}, 0.1),
    ({"type": "double"}, 1e21),
    ({"type": "boolean"}, False),
    (STRUCT, {"i": 1, "f": 0.1, "d": 100.0, "s": None, "l": [1, 2], "m": {"k": True}}),
    (DAY, 20_000),
    ({"type": "int32", "name": "org.apache.kafka.connect.data.Time"}, 3_723_004),
    ({"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, -62_000_000_001),
    (DECIMAL, "MDk="),
]
SINKS: dict[str, Sink] = {
    "string": Sink([b"one", b"", None, "ä € 😀".encode(), b"two\nlines", b"end\r", b"\0"]),
    "string of no text": Sink([b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x82A"]),
    "json": Sink(VALUES, PLAIN_JSON),
    "json with schemas": Sink([json.dumps({"schema": s, "payload": p}).encode() for s, p in TYPED], JSON),
    "appended": Sink([b"one", b"two"], before=b"before\nhalf"),
    "nothing": Sink([]),
}


def asked() -> list[list[str]]:
    """Return all questions as text, to be held against those that were recorded."""
    sources = [
        ["source", name, repr((list(each.steps), dict(each.config), each.before))] for name, each in SOURCES.items()
    ]
    return sources + [["sink", name, repr((list(s.values), dict(s.config), s.before))] for name, s in SINKS.items()]


class Worker(Protocol):
    """Runs connectors of one task."""

    bootstrap: str
    side: str
    at_once: int

    def start(self, config: Mapping[str, str]) -> None: ...

    def stop(self, name: str) -> Any:
        """Stop a connector and return its offsets."""

    def resume(self, name: str) -> None: ...

    def trouble(self, name: str) -> str:
        """Return what a connector's task failed with, '' where it runs."""


@dataclass
class Ottla:
    """Our loop, each task in a thread."""

    bootstrap: str
    side = "ottla"
    at_once = 8
    stack: ExitStack = field(default_factory=ExitStack)
    tasks: dict[str, tuple[dict[str, str], Port, ExitStack]] = field(default_factory=dict)

    def start(self, config: Mapping[str, str]) -> None:
        self._run(dict(config), {})

    def _run(self, config: dict[str, str], stored: dict[str, Any]) -> None:
        classes = {"FileStreamSource": FileStreamSourceConnector, "FileStreamSink": FileStreamSinkConnector}
        port, block = Port(), self.stack.enter_context(ExitStack())
        port.stored.update(stored)
        block.enter_context(running(spec_of(self.bootstrap, config), classes[config["connector.class"]], port=port))
        self.tasks[config["name"]] = config, port, block
        await_true(lambda: port.state in (State.RUNNING, State.FAILED))

    def stop(self, name: str) -> Any:
        _, port, block = self.tasks[name]
        block.close()
        return [{"partition": json.loads(key), "offset": value} for key, value in port.stored.items()]

    def resume(self, name: str) -> None:
        config, port, _ = self.tasks[name]
        self._run(config, port.stored)

    def trouble(self, name: str) -> str:
        return self.tasks[name][1].trace.partition("\nThe above exception")[0]


@dataclass
class Kafka:
    """Apache Kafka's worker, by REST."""

    bootstrap: str
    port: int
    side = "kafka"
    at_once = 1

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        text = None if body is None else json.dumps(body)
        connection.request(method, f"/connectors{path}", text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        if answer.status >= 300:
            raise OSError(f"{method} {path}: {answer.status} {said.decode()}")
        return json.loads(said) if said else None

    def start(self, config: Mapping[str, str]) -> None:
        self._ask("POST", "", {"name": config["name"], "config": dict(config)})
        self._await_tasks(config["name"], 1)

    def _await_tasks(self, name: str, count: int) -> None:
        def ready() -> bool:
            with suppress(OSError):  # 404 until the connector is there
                tasks = self._ask("GET", f"/{name}/status")["tasks"]
                return len(tasks) == count and all(each["state"] in ("RUNNING", "FAILED") for each in tasks)
            return False

        await_true(ready, f"{name} has {count} tasks", seconds=60)

    def stop(self, name: str) -> Any:
        self._ask("PUT", f"/{name}/stop")
        self._await_tasks(name, 0)
        return self._ask("GET", f"/{name}/offsets")["offsets"]

    def resume(self, name: str) -> None:
        self._ask("PUT", f"/{name}/resume")
        self._await_tasks(name, 1)

    def trouble(self, name: str) -> str:
        return "".join(each.get("trace", "") for each in self._ask("GET", f"/{name}/status")["tasks"])


def source_answers(worker: Worker, folder: Path) -> dict[str, Answer]:
    """Run all sources, and return of each its records, its stopped offsets, and why it failed."""
    with ThreadPoolExecutor(worker.at_once) as pool:
        names = [f"source-{number}-{worker.side}" for number in range(len(SOURCES))]
        answers = pool.map(lambda name, case: _sourced(worker, folder / name, case), names, SOURCES.values())
        return dict(zip(SOURCES, answers, strict=True))


def _sourced(worker: Worker, path: Path, case: Source) -> Answer:
    if case.before is not None:
        path.write_bytes(case.before)
    config = {"connector.class": "FileStreamSource", "file": str(path), "topic": path.name, **case.config}
    worker.start({**config, "name": path.name, "tasks.max": "1"})
    for step in case.steps:
        _do(worker, path, step)
    if not case.steps and case.before:
        await_true(lambda: worker.trouble(path.name))
    trouble = worker.trouble(path.name)
    offsets = worker.stop(path.name)
    for each in offsets:
        each["partition"]["filename"] = "FILE" if each["partition"]["filename"] == str(path) else "another"
    records = [[each.offset, _text(each.key), _text(each.value)] for each in records_of(worker.bootstrap, path.name)]
    return {"records": records, "offsets": offsets, "trouble": _cause(trouble)}


def _do(worker: Worker, path: Path, step: Step) -> None:
    match step:
        case None:
            worker.stop(path.name)
            worker.resume(path.name)
        case bytes():
            with path.open("ab") as file:
                file.write(step)
        case _:
            with suppress(AssertionError):
                await_true(lambda: len(records_of(worker.bootstrap, path.name)) >= step, seconds=ARRIVAL_S)


def _text(content: Any) -> str | None:
    return None if content is None else bytes(content).decode("utf-8", "backslashreplace")


def _cause(trace: str) -> str:
    """Return the innermost message of a trace, of Java's or ours."""
    causes = [line for line in trace.splitlines() if line and not line[0].isspace() and ": " in line]
    return causes[-1].removeprefix("Caused by: ").partition(": ")[2] if causes else ""


def sink_answers(worker: Worker, folder: Path) -> dict[str, str | None]:
    """Run all sinks, one after the other, and return of each what its file holds."""
    return {
        name: _sunk(worker, folder, f"sink-{number}-{worker.side}", case)
        for number, (name, case) in enumerate(SINKS.items())
    }


def _sunk(worker: Worker, folder: Path, name: str, case: Sink) -> str:
    with BlockingClient(worker.bootstrap) as client:
        create_topic(client, name, 1)
    producer = Producer({"bootstrap.servers": worker.bootstrap})
    for value in case.values:
        producer.produce(name, value=value)
    assert producer.flush(30) == 0
    path = folder / name
    if case.before is not None:
        path.write_bytes(case.before)
    config = {"connector.class": "FileStreamSink", "file": str(path), "topics": name, **case.config}
    worker.start({**config, "name": name, "tasks.max": "1"})
    if case.values:
        await_true(lambda: _committed(worker, name) == len(case.values), f"{name}: {worker.trouble(name)}", seconds=60)
    else:
        await_true(path.exists)
    worker.stop(name)
    return path.read_bytes().decode("utf-8", "backslashreplace")


def _committed(worker: Worker, name: str) -> int:
    consumer = Consumer({"bootstrap.servers": worker.bootstrap, "group.id": f"connect-{name}"})
    [found] = consumer.committed([Place(name, 0)], timeout=10)
    consumer.close()
    return int(found.offset)


@contextmanager
def theirs(folder: Path) -> Iterator[Kafka]:
    """Run Apache Kafka's worker at a broker of ours."""
    with running_server(folder, overrides=BROKER) as server:
        port = free_port()
        with running_worker("standalone", folder / "worker", server.bootstrap, port):
            yield Kafka(server.bootstrap, port)


def record() -> None:
    """Ask Apache Kafka Connect and write the facts."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name, theirs(Path(name)) as worker:
        answers = [*source_answers(worker, Path(name)).values(), *sink_answers(worker, Path(name)).values()]
    lines = [json.dumps([*each, answer], ensure_ascii=False) for each, answer in zip(asked(), answers, strict=True)]
    FACTS.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(lines)} facts in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    record()
