"""The file connectors' tasks as a worker runs them, against a broker: files into topics and back, also through restarts."""

from __future__ import annotations

from pathlib import Path

from ottla.connectors.files import FileStreamSinkConnector, FileStreamSourceConnector, FolderSourceConnector
from tests.spark.running import Port, await_true, records_of, running, spec_of

TEXT = {"key.converter": "org.apache.kafka.connect.storage.StringConverter"}
TEXT |= {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}


def test_a_files_lines_go_through_a_topic_into_another_file(broker: str, tmp_path: Path) -> None:
    lines = [f"line {number} ü" for number in range(20_000)]
    (tmp_path / "in").write_text("\n".join(lines) + "\n")
    source = {
        "name": "file-in",
        "connector.class": "FileStreamSource",
        "topic": "through",
        "file": str(tmp_path / "in"),
    }
    sink = {"name": "file-out", "connector.class": "FileStreamSink", "topics": "through", "file": str(tmp_path / "out")}
    port = Port()
    with running(spec_of(broker, source), FileStreamSourceConnector, port=port):
        await_true(lambda: port.stored, "the position is stored")
    assert list(port.stored.values()) == [{"position": (tmp_path / "in").stat().st_size}]
    with running(spec_of(broker, sink), FileStreamSinkConnector):
        await_true(lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text().count("\n") == len(lines))
    assert (tmp_path / "out").read_text() == (tmp_path / "in").read_text()


def test_headers_and_keys_say_where_a_line_came_from(broker: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("one\ntwo\n")
    config = {"name": "keyed", "connector.class": "FolderSource", "topic": "keyed", "paths": str(tmp_path)}
    config |= {"key": "name", "headers": "line,path"}
    port = Port()
    with running(spec_of(broker, config, worker=TEXT), FolderSourceConnector, port=port):
        await_true(lambda: port.stored, "the offset is stored")
    found = [
        (each.key, each.value, [bytes(value or b"") for _, value in each.headers])
        for each in records_of(broker, "keyed")
    ]
    path = str(tmp_path / "a.log").encode()
    assert found == [(b"a.log", b"one", [b"1", path]), (b"a.log", b"two", [b"2", path])]
