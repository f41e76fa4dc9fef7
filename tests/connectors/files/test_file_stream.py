"""FileStreamSource and FileStreamSink do to a file what Kafka's do; `tests/connect` holds them against Kafka's answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ottla.base import ConfigError
from ottla.connect import ConnectError, SinkColumns, SinkRecord, SourceColumns, Struct, data
from ottla.connect.data import SchemaBuilder
from ottla.connectors.files import (
    FileStreamSinkConnector,
    FileStreamSinkTask,
    FileStreamSourceConnector,
    FileStreamSourceTask,
)
from ottla.connectors.files.lines import LineBuffer, cut
from tests.connectors.contexts import SinkContext, Store, polled, started, until


def source(path: Path, store: Store | None = None, **more: str) -> FileStreamSourceTask:
    return started(FileStreamSourceTask(), {"file": str(path), "topic": "lines", **more}, store)


def values(records: list[Any]) -> list[str]:
    return [each.value for each in records]


def test_lines_become_one_array_of_text_with_the_bytes_they_end_behind(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes("ab\näö\r\n\nlast, without an end".encode())
    found = source(tmp_path / "in").poll()
    assert isinstance(found, SourceColumns)
    assert found.values.to_pylist() == ["ab", "äö", ""]
    assert found.topic == "lines" and found.schema == data.STRING and found.timestamp
    assert found.source_partition == {"filename": str(tmp_path / "in")}
    assert found.source_offset == {"position": 3 + 6 + 1}, "a position is bytes"


def test_a_line_without_its_end_is_kept_until_it_has_one(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("half")
    task = source(path)
    with path.open("a") as file:
        file.write(" a line\nnext")
    assert values(until(task, bool)) == ["half a line"]
    with path.open("a") as file:
        file.write("\n")
    assert values(until(task, bool)) == ["next"]


def test_a_missing_file_is_waited_for(tmp_path: Path) -> None:
    task = source(tmp_path / "in")
    writer = threading.Timer(0.05, (tmp_path / "in").write_text, ["here\n"])
    writer.start()
    assert values(until(task, bool)) == ["here"]
    writer.join()


def test_reading_goes_on_exactly_behind_the_stored_position(tmp_path: Path) -> None:
    path, store = tmp_path / "in", Store()
    lines = [f"zeile {number} ü" for number in range(5000)]
    path.write_text("\n".join(lines) + "\n")
    got: list[str] = []
    for _ in range(5):  # five tasks, one after the other
        task = source(path, store, **{"batch.size": "1000"})
        records = polled(task)
        store.take(records)
        got += values(records)
    assert got == lines
    assert store.get({"filename": str(path)}) == {"position": path.stat().st_size}


def test_batch_size_bounds_a_poll_where_it_is_set(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("x\n" * 5000)
    assert len(polled(source(path))) == 5000
    assert len(polled(source(path, **{"batch.size": "3"}))) == 3


def test_a_stop_ends_a_poll_that_waits(tmp_path: Path) -> None:
    task = source(tmp_path / "never")
    threading.Timer(0.05, task.stop).start()
    assert task.poll() is None


@pytest.mark.parametrize("cuts", [(), (1,), (3,), (3, 4), (5, 6, 7), (9,), (11, 13)])
def test_where_a_stream_is_cut_changes_nothing(cuts: tuple[int, ...]) -> None:
    stream = b"a\r\nb\rc\xc3\xa4\n\r\n\xffd\r\rz\n"
    whole = cut(stream, lone_returns=True)
    buffer, found, taken = LineBuffer(lone_returns=True), [], 0
    for start, stop in zip((0, *cuts), (*cuts, len(stream)), strict=True):
        buffer.feed(stream[start:stop])
        while buffer.waiting:
            lines, taken = buffer.take(2)
            found += lines.to_pylist()
    assert found == whole.values.to_pylist() == ["a", "b", "cä", "", "�d", "", "z"]
    assert taken == len(stream)


def test_a_return_by_itself_may_be_text() -> None:
    assert cut(b"10%\r20%\r\n", lone_returns=False).values.to_pylist() == ["10%\r20%"]


def test_the_standard_input_is_read_where_no_file_is_named() -> None:
    script = """
from ottla.connectors.files import FileStreamSourceTask
from tests.connectors.contexts import started, until
records = until(started(FileStreamSourceTask(), {"topic": "t"}), lambda found: len(found) == 2)
print([each.value for each in records], records[-1].source_partition, records[-1].source_offset)
"""
    ran = subprocess.run([sys.executable, "-c", script], input="one\ntwo\n", capture_output=True, text=True, timeout=60)
    assert ran.stdout.split("\n")[0] == "['one', 'two'] {'filename': None} {'position': None}", ran.stderr


def test_the_standard_output_is_written_where_no_file_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    task = sink(None)
    task.put([record("one"), record("two")])
    task.stop()
    assert capfd.readouterr().out == "one\ntwo\n"


def test_what_cannot_be_read_fails_the_task_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="Is a directory"):
        source(tmp_path).poll()
    store = Store()
    (tmp_path / "in").touch()
    store.put({"filename": str(tmp_path / "in")}, {"position": "far"})
    with pytest.raises(ConnectError, match="Offset position is the incorrect type"):
        source(tmp_path / "in", store).poll()


def test_a_source_without_topic_is_refused() -> None:
    with pytest.raises(ConfigError, match='Missing required configuration "topic"'):
        FileStreamSourceConnector().start({"file": "x"})
    with pytest.raises(ConfigError, match="String must be non-empty"):
        FileStreamSourceConnector().start({"file": "x", "topic": ""})


def test_one_task_reads_and_any_number_write() -> None:
    reader, writer = FileStreamSourceConnector(), FileStreamSinkConnector()
    reader.start({"topic": "t"})
    writer.start({})
    assert (len(reader.task_configs(5)), len(writer.task_configs(5))) == (1, 5)


def record(value: Any, schema: Any = None) -> SinkRecord:
    return SinkRecord(topic="t", partition=0, offset=0, value=value, value_schema=schema)


def sink(path: Path | None) -> FileStreamSinkTask:
    props = {} if path is None else {"file": str(path)}
    task = FileStreamSinkTask()
    task.context = SinkContext(props)  # type: ignore[assignment]
    task.start(props)
    return task


def test_values_are_appended_as_java_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("before\n")
    schema = SchemaBuilder.struct().field("a", data.INT32).field("b", data.STRING).build()
    struct = Struct(schema)
    struct.put("a", 1)
    struct.put("b", "two")
    task = sink(path)
    task.put([record("ä"), record(None), record(1.0), record({"k": [1, True]}), record(struct), record(b"\xff")])
    task.flush({})
    task.stop()
    assert path.read_bytes() == "before\nä\nnull\n1.0\n{k=[1, true]}\nStruct{a=1,b=two}\n".encode() + b"\xff\n"


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_columns_are_appended_as_records_are(tmp_path: Path, kind: pa.DataType) -> None:
    rows = pa.array([b"cut off", b"", b"b", None, "ü".encode()], pa.binary()).cast(kind).slice(1)
    columns = SinkColumns(
        topic="t",
        partition=0,
        values=rows,
        schema=None,
        offsets=pa.array([0, 1, 2, 3]),
        timestamps=pa.array([-1] * 4),
    )
    for name, put in (("columns", "put_columns"), ("records", "put")):
        task = sink(tmp_path / name)
        getattr(task, put)(columns if put == "put_columns" else columns.records())
        task.stop()
    assert (tmp_path / "columns").read_bytes() == (tmp_path / "records").read_bytes() == "\nb\nnull\nü\n".encode()


def test_a_file_that_cannot_be_made_fails_the_task(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"Couldn't find or create file '.*/no/out'"):
        sink(tmp_path / "no" / "out")


def test_a_full_disk_fails_the_task() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with pytest.raises(ConnectError, match="/dev/full cannot be written to: No space left on device"):
        sink(Path("/dev/full")).put([record("x")])
