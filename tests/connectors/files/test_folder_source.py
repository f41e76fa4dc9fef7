"""FolderSource finds files by patterns, makes records of their lines as it is told, and treats finished ones as asked."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError
from ottla.connect import ConnectError, SourceColumns
from ottla.connectors.files import FolderSourceConnector, FolderSourceTask
from tests.connectors.contexts import Store, polled, started, until
from tests.connectors.files.rotating import line

QUICK = {"topic": "lines", "scan.interval.ms": "1", "poll.interval.ms": "1"}


def follow(paths: Path | str, store: Store | None = None, **more: str) -> FolderSourceTask:
    props = {name.replace("_", "."): value for name, value in more.items()}
    return started(FolderSourceTask(), {**QUICK, "paths": str(paths), **props}, store)


def read(paths: Path | str, count: int, store: Store | None = None, **more: str) -> list[Any]:
    return until(follow(paths, store, **more), lambda found: len(found) >= count, store)


def values(records: list[Any]) -> list[Any]:
    return [each.value for each in records]


def test_folders_patterns_and_any_depth_are_found_and_exclusions_are_not(tmp_path: Path) -> None:
    for name in ("one/a.log", "one/b.txt", "two/x/y/c.log", "two/x/skip.log", "one/.hidden"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    paths = f"{tmp_path}/one, {tmp_path}/two/**/*.log"
    found = read(paths, 3, exclude="skip*")
    assert sorted(values(found)) == ["one/a.log", "one/b.txt", "two/x/y/c.log"]
    assert all("skip" not in str(each.value) for each in found)


def test_new_files_are_found(tmp_path: Path) -> None:
    task = follow(tmp_path / "*.log")
    (tmp_path / "a.log").write_text("first\n")
    assert values(until(task, bool)) == ["first"]
    (tmp_path / "b.log").write_text("second\n")
    assert values(until(task, bool)) == ["second"]


def test_a_task_that_is_stopped_between_two_polls_leaves_no_file_open(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("first\n")
    task = follow(log)
    assert values(until(task, bool)) == ["first"]
    assert _is_open(log)
    task.stop()
    assert not _is_open(log)


def _is_open(path: Path) -> bool:
    return any(os.path.realpath(each) == str(path) for each in Path("/proc/self/fd").iterdir())


def test_plain_lines_travel_as_columns(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x\n" * 1000)
    task = follow(tmp_path)
    [columns] = task.poll()
    assert isinstance(columns, SourceColumns) and len(columns.values) == 1000
    assert columns.source_partition == {"log": str(tmp_path / "a.log")}
    assert (columns.source_offset["position"], columns.source_offset["line"]) == (2000, 1000)


@pytest.mark.parametrize("suffix, pack", [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_compressed_files_are_unpacked_and_gone_on_with(tmp_path: Path, suffix: str, pack: Any) -> None:
    lines = [line(number) for number in range(20_000)]
    whole = "\n".join(lines).encode()  # the last line has no end, and is one all the same: the file is whole
    (tmp_path / f"a.log.1{suffix}").write_bytes(pack(whole[:400_000]) + pack(whole[400_000:]))
    store = Store()
    first = polled(follow(tmp_path, store, read_bytes="100000"))
    store.take(first)
    assert 0 < len(first) < 20_000
    rest = read(tmp_path, 20_000 - len(first), store)
    assert values(first + rest) == lines


@pytest.mark.parametrize("suffix, pack", [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_a_damaged_compressed_file_costs_its_own_rest_and_nothing_else(tmp_path: Path, suffix: str, pack: Any) -> None:
    lines = [line(number) for number in range(20_000)]
    whole, torn = "\n".join(lines).encode(), tmp_path / f"a.log.1{suffix}"
    good = pack(whole[:400_000])
    torn.write_bytes(good + bytes([0x5A]) * 3000)
    (tmp_path / "a.log").write_text("written to\n")
    (tmp_path / "b.log").write_text("a neighbour\n")
    os.utime(torn, (1, 1))
    task = follow(tmp_path / "*", finished_policy="delete", finished_after_ms="0")
    found = values(until(task, lambda found: {"written to", "a neighbour"} <= set(values(found))))
    before = [each for each in found if each not in ("written to", "a neighbour")]
    assert before and before == lines[: len(before)], "whole lines in front of the damage"
    for _ in range(3):
        task.poll()
    assert torn.exists(), "nobody deletes what could not be read"


def test_links_that_lead_nowhere_and_files_that_may_not_be_read_stop_no_other_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dangling.log").symlink_to(tmp_path / "gone")
    (tmp_path / "loop.log").symlink_to(tmp_path / "loop.log")
    (tmp_path / "secret.log").write_text("secret\n")
    (tmp_path / "b.log").write_text("a neighbour\n")
    really, refused = os.open, [True]

    def opens(path: Any, *arguments: Any, **named: Any) -> int:
        if str(path).endswith("secret.log") and refused[0]:
            raise PermissionError(13, "Permission denied")
        return really(path, *arguments, **named)

    monkeypatch.setattr(os, "open", opens)
    task = follow(tmp_path / "*.log", symlinks="true")
    assert values(until(task, bool)) == ["a neighbour"]
    refused[0] = False
    assert values(until(task, bool)) == ["secret"]
    (tmp_path / "gone").write_text("made late\n")
    assert "made late" in values(until(task, bool))


def test_a_stack_trace_is_one_record(tmp_path: Path) -> None:
    events = [
        "2026-01-01 start",
        "2026-01-02 error\n  at main\nCaused by: x\n  at other",
        "2026-01-03 one more",
    ]
    (tmp_path / "a.log").write_text("\n".join(events) + "\n")
    for keys in (
        {"multiline_start": r"^\d{4}-\d\d-\d\d"},
        {"multiline_continue": r"^(\s|Caused by)"},
    ):
        found = read(tmp_path, 3, multiline_wait_ms="10", headers="line,position", **keys)
        assert values(found) == events
        assert [each.headers[0].value for each in found] == [1, 2, 6]


def test_an_event_that_has_no_end_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("1 begin\n")
    task = follow(tmp_path, multiline_start=r"^\d", multiline_wait_ms="60000")
    os.utime(path)
    task.wait_s = 0.0
    assert not polled(task)
    with path.open("a") as file:
        file.write(" more\n2 next\n")
    assert values(until(task, bool)) == ["1 begin\n more"]


def test_long_lines_are_split_cut_or_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x" * 50 + "\nshort\n")
    assert values(read(tmp_path, 4, record_bytes_max="20")) == ["x" * 20, "x" * 20, "x" * 10, "short"]
    cut = {"record_bytes_max": "20", "record_too_long": "truncate"}
    assert values(read(tmp_path, 2, **cut)) == ["x" * 20, "short"]
    with pytest.raises(ConnectError, match="more than 20 bytes"):
        polled(follow(tmp_path, record_bytes_max="20", record_too_long="fail"))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "utf-16", "utf-16-be", "shift_jis"])
def test_every_encoding_is_read_and_gone_on_with(tmp_path: Path, encoding: str) -> None:
    lines = ["eins", "çé" if encoding == "latin-1" else "日本" if encoding == "shift_jis" else "Ċ日ü", "", "drei"]
    (tmp_path / "a.log").write_bytes("".join(f"{each}\r\n" for each in lines).encode(encoding))
    store, found = Store(), []
    for _ in lines:  # a task for each line
        records = polled(follow(tmp_path, store, encoding=encoding, headers="line"))[:1]
        store.take(records)
        found += records
    assert values(found) == lines


def test_bytes_that_are_no_text_are_replaced_or_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"caf\xe9\n")
    assert values(read(tmp_path, 1)) == ["caf�"]
    with pytest.raises(ConnectError, match="no utf-8"):
        polled(follow(tmp_path, encoding_errors="fail"))


def test_values_headers_and_keys_say_where_a_record_came_from(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("id=7 one\nid=8 two\nnone\n")
    about = {"value_fields": "name,line", "headers": "path,position", "key": "pattern", "key_pattern": r"id=(\d+)"}
    found = read(tmp_path, 3, **about)
    assert [each.key for each in found] == ["7", "8", None]
    assert [(each.value.get("message"), each.value.get("name"), each.value.get("line")) for each in found] == [
        ("id=7 one", "a.log", 1),
        ("id=8 two", "a.log", 2),
        ("none", "a.log", 3),
    ]
    assert [each.headers[0][:2] for each in found] == [("file.path", str(path))] * 3
    assert [each.headers[1].value for each in found] == [0, 9, 18]


def test_files_may_be_followed_from_their_ends(tmp_path: Path) -> None:
    path, store = tmp_path / "a.log", Store()
    path.write_text("old\nhalf")
    task = follow(tmp_path, store, start_position="end")
    task.wait_s = 0.0
    assert not polled(task)
    with path.open("a") as file:
        file.write(" a line\n")
    (tmp_path / "b.log").write_text("a new file is read whole\n")
    found = until(task, lambda found: len(found) == 2, store)
    assert sorted(values(found)) == ["a new file is read whole", "half a line"]


@pytest.mark.parametrize("policy", ["delete", "move"])
def test_finished_files_are_removed_once_their_offset_is_stored(tmp_path: Path, policy: str) -> None:
    inbox, done = tmp_path / "in", tmp_path / "done"
    inbox.mkdir()
    done.mkdir()
    (inbox / "a.csv").write_text("1\n2\nlast, without an end")
    (inbox / "b.csv.gz").write_bytes(gzip.compress(b"3\n"))
    store = Store()
    task = follow(inbox, store, finished_policy=policy, finished_folder=str(done), finished_after_ms="20")
    found = until(task, lambda found: len(found) >= 4)
    task.wait_s = 0.05
    assert not polled(task) and len(list(inbox.iterdir())) == 2, "nothing is stored yet"
    store.take(found)
    until_true(task, lambda: not list(inbox.iterdir()))
    assert sorted(each.name for each in done.iterdir()) == (["a.csv", "b.csv.gz"] if policy == "move" else [])


def until_true(task: FolderSourceTask, condition: Any) -> None:
    for _ in range(200):
        if condition():
            return
        assert not polled(task)
    raise AssertionError("it did not come true")


def test_an_operator_sets_a_position_and_older_files_count_as_read(tmp_path: Path) -> None:
    (tmp_path / "a.log.1").write_text("old\n")
    (tmp_path / "a.log").write_text("one\ntwo\n")
    connector, store, log = FolderSourceConnector(), Store(), {"log": str(tmp_path / "a.log")}
    assert connector.alter_offsets({}, [(log, {"position": 4}), (log, None)])
    store.put(log, {"position": 4})
    assert values(read(tmp_path, 1, store)) == ["two"]
    for wrong in ({}, {"position": -1}, {"position": "4"}, {"position": 4, "others": "no list"}):
        with pytest.raises(ConnectError, match="position"):
            connector.alter_offsets({}, [(log, wrong)])
    with pytest.raises(ConnectError, match="path of a log"):
        connector.alter_offsets({}, [({"file": "x"}, {"position": 4})])


def test_logs_are_spread_evenly_over_tasks_and_each_is_read_by_one(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{chr(97 + number)}.log").write_text(f"{number}\n")
    connector = FolderSourceConnector()
    connector.start({**QUICK, "paths": str(tmp_path)})
    configs = connector.task_configs(4)
    shares = [polled(started(FolderSourceTask(), props)) for props in configs]
    assert sorted(values([record for share in shares for record in share])) == [str(number) for number in range(8)]
    assert [len(share) for share in shares] == [2, 2, 2, 2]
    assert len(connector.task_configs(20)) == 8
    connector.stop()


@pytest.mark.parametrize(
    "key, value, others",
    [
        ("paths", "", {}),
        ("encoding", "klingon", {}),
        ("multiline.start", "(", {}),
        ("multiline.continue", "x", {"multiline.start": "y"}),
        ("key.pattern", None, {"key": "pattern"}),
        ("finished.folder", "/no/such/folder", {"finished.policy": "move"}),
        ("value.fields", "colour", {}),
        ("record.bytes.max", "1", {}),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_key(key: str, value: str | None, others: dict[str, str]) -> None:
    props = {"topic": "t", "paths": "/tmp", **others, **({} if value is None else {key: value})}
    found = FolderSourceConnector().validate(props)
    assert [name for name, each in found.items() if each.errors] == [key]
    with pytest.raises(ConfigError):
        FolderSourceConnector().start(props)


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="logrotate is not installed")
@pytest.mark.parametrize("how", ["create", "create\n compress", "copytruncate", "copytruncate\n compress"])
def test_logrotate_moves_no_line(tmp_path: Path, how: str) -> None:
    path, count, rounds = tmp_path / "logs" / "app.log", 3000, 6
    path.parent.mkdir()
    conf = tmp_path / "conf"
    conf.write_text(f"{path} {{\n rotate 50\n su root root\n {how}\n}}\n")
    os.chmod(conf, 0o600)
    task, found = follow(path.parent), []
    for number in range(rounds):  # a writer that opens the file anew, and that pauses while copytruncate does its work
        with path.open("a") as file:
            file.writelines(f"{line(each)}\n" for each in range(number * count, (number + 1) * count))
        if number % 2:
            found += until(task, lambda records: len(records) > 0)
        subprocess.run(["logrotate", "-f", "-s", str(tmp_path / "state"), str(conf)], check=True, timeout=30)
    missing = rounds * count - len(found)
    found += until(task, lambda records: len(records) >= missing)
    assert values(found) == [line(each) for each in range(rounds * count)]
