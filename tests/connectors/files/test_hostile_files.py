"""Hostile values, bytes and names through files: what a line has comes as Java reads it, and every value becomes a line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ottla.connect import ConnectError, SinkColumns, SinkRecord, data
from ottla.connectors.files import FileStreamSinkTask, FileStreamSourceTask, FolderSourceTask
from tests.connectors.contexts import SinkContext, Store, polled, started, until
from tests.hostile_values import HOSTILE, NAMES, RAW

QUICK = {"topic": "lines", "scan.interval.ms": "1", "poll.interval.ms": "1"}
TEXTS = [value for label, _, value in HOSTILE if label.startswith("text: ")]
LINES = [each for each in RAW if each is not None]
LINES += [each.encode() for each in TEXTS if "\ud800" not in each and "\n" not in each and "\r" not in each]
AS_READ = [each.decode(errors=data.AS_JAVA) for each in LINES]
FILE_NAMES = [each for each in NAMES if each not in (".", "..") and "/" not in each]


def sink(path: Path) -> FileStreamSinkTask:
    task = FileStreamSinkTask()
    task.context = SinkContext({})  # type: ignore[assignment]
    task.start({"file": str(path)})
    return task


def test_a_file_source_gives_every_line_as_java_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"".join(each + b"\n" for each in LINES))
    task = started(FileStreamSourceTask(), {"file": str(path), "topic": "lines"})
    assert [each.value for each in until(task, lambda found: len(found) >= len(LINES))] == AS_READ


@pytest.mark.parametrize("fields", ["", "line"])
def test_a_folder_source_gives_every_line_as_java_reads_it_by_columns_and_one_by_one(
    fields: str, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_bytes(b"".join(each + b"\n" for each in LINES))
    task = started(FolderSourceTask(), {**QUICK, "paths": str(tmp_path), "value.fields": fields})
    found = [each.value for each in until(task, lambda found: len(found) >= len(LINES))]
    task.stop()
    if fields:
        assert [each["line"] for each in found] == list(range(1, len(LINES) + 1))
        found = [each["message"] for each in found]
    assert found == AS_READ


def test_a_folder_source_that_is_to_fail_names_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"good\n\xff\xfe\n")
    task = started(FolderSourceTask(), {**QUICK, "paths": str(tmp_path), "encoding.errors": "fail"})
    with pytest.raises(ConnectError, match="a line is no utf-8"):
        until(task, lambda found: len(found) >= 2)
    task.stop()


def test_files_and_folders_with_odd_names_are_read_once_each(tmp_path: Path) -> None:
    for name in (*FILE_NAMES, "no UTF-8 \udcff"):
        (tmp_path / "names" / name).mkdir(parents=True)
        (tmp_path / "names" / name / f"{name}.log").write_text("one line\n")
    store, paths = Store(), {**QUICK, "paths": f"{tmp_path}/names/**/*.log"}
    task = started(FolderSourceTask(), paths, store)
    found = until(task, lambda found: len(found) > len(FILE_NAMES), store)
    task.stop()
    assert {Path(each.source_partition["log"]).stem for each in found} == {*FILE_NAMES, "no UTF-8 \udcff"}
    again = started(FolderSourceTask(), paths, store)
    assert not [row for _ in range(10) for row in polled(again)], "each was read to its end"
    again.stop()


def test_a_file_sink_writes_a_line_for_every_value_whatever_it_is(tmp_path: Path) -> None:
    for label, schema, value in HOSTILE:
        path = tmp_path / "out"
        task = sink(path)
        task.put([SinkRecord(topic="t", partition=0, value_schema=schema, value=value, offset=0)])
        task.stop()
        written = path.read_bytes()
        path.unlink()
        if isinstance(value, bytes):
            assert written == value + b"\n", label
        elif isinstance(value, str):
            assert written == value.encode("utf-8", "replace") + b"\n", label
        else:
            assert written.endswith(b"\n") and written.count(b"\n") == 1, label


@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_a_file_sink_writes_columns_as_it_writes_records(kind: str, tmp_path: Path) -> None:
    texts = [each for each in TEXTS if "\ud800" not in each]
    values = [None, *texts] if kind == "text" else [None, *LINES]
    numbers = pa.array(range(len(values)), pa.int64())
    columns = SinkColumns(
        topic="t",
        partition=0,
        values=pa.array(values, pa.string() if kind == "text" else pa.binary()),
        schema=data.OPTIONAL_STRING if kind == "text" else data.OPTIONAL_BYTES,
        offsets=numbers,
        timestamps=numbers,
    )
    tasks = sink(tmp_path / "rows"), sink(tmp_path / "columns")
    tasks[0].put(columns.records())
    tasks[1].put_columns(columns)
    for each in tasks:
        each.stop()
    assert (tmp_path / "columns").read_bytes() == (tmp_path / "rows").read_bytes()
