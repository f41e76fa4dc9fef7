"""The file connectors' tasks as a worker runs them, against a broker: files into topics and back, also through restarts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ottla.connect.storage import OffsetState, State, apply_offset
from ottla.connectors.files import FileStreamSinkConnector, FileStreamSourceConnector, FolderSourceConnector
from tests.connectors.files.rotating import line
from tests.spark.running import Port, await_true, committed_records, records_of, running, spec_of

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


class OffsetsTopicPort(Port):
    """A port that answers with the offsets of committed transactions, as a worker does under exactly once."""

    def __init__(self, broker: str, connector: str) -> None:
        super().__init__()
        self._broker, self._connector = broker, connector

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        state = OffsetState()
        for key, value in committed_records(self._broker, "connect-offsets"):
            state, _ = apply_offset(state, key, value)
        return [state.offset(self._connector, each) for each in partitions]


def test_a_rotating_log_arrives_exactly_once_though_others_take_its_task_over(broker: str, tmp_path: Path) -> None:
    count, path = 8_000, tmp_path / "app.log"
    config = {"name": "rotated", "connector.class": "FolderSource", "topic": "rotated", "paths": f"{path}*"}
    config |= {"scan.interval.ms": "50", "poll.interval.ms": "10"}
    spec = spec_of(broker, config, worker=TEXT, exactly_once=True)
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.connectors.files.rotating", "rename", str(path), str(count)]
    )

    def arrived() -> int:
        return len(committed_records(broker, "rotated"))

    with ExitStack() as tasks:
        ports = []
        for enough in (1, count // 4, count // 2, count):
            ports.append(OffsetsTopicPort(broker, "rotated"))
            tasks.enter_context(running(spec, FolderSourceConnector, port=ports[-1]))  # the one before is a zombie now
            await_true(lambda enough=enough: arrived() >= enough, f"{enough} lines have arrived")
        writer.wait(30)
    assert len(list(tmp_path.iterdir())) > 5, "nothing was rotated"
    assert [value.decode() for _, value in committed_records(broker, "rotated")] == [line(n) for n in range(count)]
    assert any("transactional id" in each.trace or each.state is State.FAILED for each in ports[:-1]), (
        "nobody was fenced"
    )
