"""Stores are read from changelogs as Kafka Streams writes them, and answer by key, range, prefix, window and session."""

from __future__ import annotations

import json
import sqlite3
import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.base import KafkaError, TopicPartition
from ottla.client import BlockingClient
from ottla.spark import StreamsApplication
from ottla.spark.streams.plain_values import key_of_text, plain
from ottla.spark.streams.state.store_tables import LoggedEntry, StoreTable
from ottla.spark.streams.state.stores import StoreReader
from ottla.spark.streams.web import ApplicationServer, metrics_text
from ottla.streams import StoreSpec, StreamsSettings, Topology, Windowed
from ottla.wire import Record, build_batch
from tests.server import running_server
from tests.spark.conftest import create_topic
from tests.streams.run.plans import LONG, TEXT, count_by_word
from tests.waiting import until


def table(kind: str, **more: Any) -> StoreTable:
    return StoreTable(sqlite3.connect(":memory:"), StoreSpec("s", kind, TEXT, LONG, **more), 0)


def logged(key: str, value: str | None, timestamp: int = 0, tail: bytes = b"") -> LoggedEntry:
    return LoggedEntry(key.encode() + tail, None if value is None else value.encode(), timestamp)


def window(start: int) -> bytes:
    return struct.pack(">qi", start, 0)


def session(start: int, end: int) -> bytes:
    return struct.pack(">qq", end, start)


def keys(entries: Iterator[Any]) -> list[str]:
    return [entry.key.decode() for entry in entries]


def test_the_last_value_of_a_key_stands_and_a_tombstone_removes_it() -> None:
    store = table("timestamped_key_value")
    store.apply([logged("a", "1"), logged("b", "1"), logged("a", "2", 9), logged("b", None), logged("b", None)])
    found = store.get(b"a")
    assert found is not None and (found.value, found.timestamp) == (b"2", 9)
    assert store.get(b"b") is None and store.count() == 1


def test_ranges_and_prefixes_go_by_the_bytes_of_keys() -> None:
    store = table("key_value")
    store.apply([logged(key, "x") for key in ("b", "a", "ab", "aa", "c")])
    assert keys(store.range(b"a", b"b")) == ["a", "aa", "ab", "b"]
    assert keys(store.range(None, b"aa", reverse=True)) == ["aa", "a"]
    assert keys(store.prefix(b"a")) == ["a", "aa", "ab"]
    assert keys(store.range(None, None, limit=2)) == ["a", "aa"]
    edge = table("key_value")
    edge.apply([LoggedEntry(b"\xff\xff", b"1", 0), LoggedEntry(b"\xfe", b"1", 0)])
    assert [entry.key for entry in edge.prefix(b"\xff")] == [b"\xff\xff"]


def test_windows_are_found_by_key_and_time_and_forgotten_after_the_retention() -> None:
    store = table("timestamped_window", window_size_ms=10, retention_ms=100)
    store.apply([logged(key, "1", 0, window(start)) for key, start in (("a", 0), ("a", 10), ("a", 20), ("b", 10))])
    found = [(entry.key, entry.start, entry.end) for entry in store.windows(b"a", 10, 20)]
    assert found == [(b"a", 10, 20), (b"a", 20, 30)]
    assert keys(store.windows(None, 10, 10)) == ["a", "b"]
    store.apply([logged("c", "1", 0, window(115))])
    assert [entry.start for entry in store.windows(b"a", 0, 200)] == [20]


def test_sessions_are_found_by_the_time_that_they_touch() -> None:
    store = table("session")
    store.apply([logged("a", "1", 0, session(0, 5)), logged("a", "1", 0, session(20, 30))])
    assert [(entry.start, entry.end) for entry in store.sessions(b"a", 5, 100)] == [(0, 5), (20, 30)]
    assert [(entry.start, entry.end) for entry in store.sessions(None, 6, 25)] == [(20, 30)]
    store.apply([logged("a", None, 0, session(20, 30))])
    assert store.count() == 1


def test_a_versioned_store_answers_as_of_a_time() -> None:
    store = table("versioned", retention_ms=1000)
    store.apply([logged("a", "1", 10), logged("a", "2", 20), logged("a", None, 30), logged("b", "9", 5)])
    values = [None if (found := store.get(b"a", at)) is None else found.value for at in (9, 10, 25, 30)]
    assert values == [None, b"1", b"2", None]
    assert keys(store.range(None, None)) == ["b"]


def test_values_become_json_and_keys_are_read_from_text() -> None:
    assert plain({"k": b"text", "b": b"\xff", "w": Windowed("a", 1, 2)}) == {
        "k": "text",
        "b": {"base64": "/w=="},
        "w": {"key": "a", "start_ms": 1, "end_ms": 2},
    }
    assert key_of_text(TEXT, "5") == "5" and key_of_text(LONG, "5") == 5
    with pytest.raises(KafkaError, match="no long"):
        key_of_text(LONG, "five")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingClient]:
    with running_server(tmp_path_factory.mktemp("ottla")) as server, BlockingClient(server.bootstrap) as opened:
        yield opened


Write = Callable[..., None]


@pytest.fixture(scope="module")
def application(client: BlockingClient) -> Iterator[tuple[StreamsApplication, Write]]:
    """An application that was not started, over a changelog that the test writes."""
    create_topic(client, "app-counts-changelog", 2)
    bootstrap = ",".join(map(str, client.client.bootstrap))
    app = StreamsApplication(count_by_word(), application_id="app", bootstrap_servers=bootstrap)

    def write(partition: int, **counts: int | None) -> None:
        records = [
            Record(0, 1000 + index, key.encode(), LONG.serialize(value), ())
            for index, (key, value) in enumerate(counts.items())
        ]
        client.produce({TopicPartition("app-counts-changelog", partition): bytes(build_batch(records))})

    write(0, apple=3, pear=1)
    write(1, plum=7)
    yield app, write
    app.close()


def test_a_store_is_read_from_every_partition_with_the_offsets_that_the_answer_reflects(
    application: tuple[StreamsApplication, Write],
) -> None:
    store = application[0].store("counts")
    assert store.get("apple") == 3 and store.get("plum") == 7 and store.get("fig") is None
    assert store.position.facts() == {"offsets": {"0": 2, "1": 1}, "lag": 0}
    assert store.all() == [("apple", 3), ("pear", 1), ("plum", 7)] and len(store) == 3
    assert store.range("b", "pear") == [("pear", 1)] and store.prefix("p", limit=1) == [("pear", 1)]
    with pytest.raises(KafkaError, match="fetch is for window stores"):
        store.fetch("apple")


def test_a_store_that_is_none_is_refused_in_kafkas_words(application: tuple[StreamsApplication, Write]) -> None:
    with pytest.raises(KafkaError, match="Cannot get state store nothing because no such store is registered"):
        application[0].store("nothing")


def fetched(port: int, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            body = answer.read().decode()
            return answer.status, json.loads(body) if "json" in answer.headers["Content-Type"] else body
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_http_serves_status_metrics_and_stores(application: tuple[StreamsApplication, Write]) -> None:
    server = ApplicationServer(application[0], "127.0.0.1", 0)
    try:
        code, status = fetched(server.port, "/status")
        assert (code, status["state"], status["stores"]) == (200, "CREATED", ["counts"])
        assert fetched(server.port, "/health")[0] == 503
        code, found = fetched(server.port, "/stores/counts/keys/apple")
        assert (code, found["value"], found["timestamp"], found["position"]["lag"]) == (200, 3, 1000, 0)
        assert fetched(server.port, "/stores/counts/keys/fig")[0] == 404
        code, found = fetched(server.port, "/stores/counts?low=b&high=pf&limit=5")
        assert [entry["key"] for entry in found["entries"]] == ["pear"]
        assert fetched(server.port, "/stores/counts?nothing=1")[0] == 400
        assert fetched(server.port, "/stores/other")[0] == 404
        assert 'state="CREATED"} 1' in fetched(server.port, "/metrics")[1]
    finally:
        server.close()


def test_metrics_are_lines_that_prometheus_reads() -> None:
    query = dict.fromkeys(("rows", "rows_per_second", "lag", "batches", "batch_seconds", "late", "dropped"), 1)
    query |= {"name": 'a"b', "skipped": 0, "restarts": 2}
    text = metrics_text([{"application_id": "app", "state": "RUNNING", "queries": [query]}])
    assert 'ottla_streams_restarts_total{application_id="app",query="a\\"b"} 2' in text
    assert all(line.startswith("#") or len(line.rsplit(" ", 1)) == 2 for line in text.splitlines())


def test_what_a_new_record_says_is_seen_without_asking_anew(application: tuple[StreamsApplication, Write]) -> None:
    app, write = application
    store = app.store("counts")
    write(1, plum=None, quince=1)
    until(lambda: ("quince", 1) in store.all(), "what was written")  # a look asks nobody; the reader's Fetch brings it
    assert "plum" not in dict(store.all()) and store.position.offsets[1] == 3


def test_a_table_of_a_topic_is_read_from_that_topic(client: BlockingClient) -> None:
    spec = StoreSpec("fruits", "key_value", TEXT, TEXT, source_topic="fruits")
    create_topic(client, "fruits", 1)
    client.produce({TopicPartition("fruits", 0): bytes(build_batch([Record(0, 5, b"a", b"apple", ())]))})
    settings = StreamsSettings.of(application_id="x", bootstrap_servers=",".join(map(str, client.client.bootstrap)))
    with StoreReader(Topology({}, {"fruits": spec}), settings) as reader:
        view = reader.view("fruits")
        assert view.entry("a") == ("a", "apple", 5) and view.position.offsets == {0: 1}
