"""A capture killed as `kill -9` does, at told counts inside of a snapshot in columns: replayed, its topic is the table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.connectors.cdc.replay import connected, run_sql
from tools.postgres import PASSWORD, USER, PostgresServer

pytestmark = pytest.mark.timeout(300)
ROWS = 40_000
PIECE = 500
"""Rows of one poll."""


def process(server: PostgresServer, database: str, folder: Path, still: int) -> subprocess.Popen[str]:
    props = {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": database,
        "plugin.name": "pgoutput",
        "poll.interval.ms": "20",
        "topic.prefix": "killed",
        "slot.name": f"killed_{database}",
        "publication.name": f"killed_{database}",
        "snapshot.fetch.size": str(PIECE),
    }
    command = [sys.executable, "-m", "tests.connectors.cdc.killed_capture", json.dumps(props), str(folder), str(still)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])


def killed_at(server: PostgresServer, database: str, folder: Path, still: int) -> tuple[int, int]:
    """Kill a capture that stands still at a count; returns how many records it told, and how many of them in columns."""
    child = process(server, database, folder, still)
    assert child.stdout is not None
    told = (0, 0)
    for line in child.stdout:
        if line == "still\n":
            break
        told = tuple(map(int, line.split()))  # type: ignore[assignment]
    child.kill()
    child.wait()
    child.stdout.close()
    return told


def replayed(folder: Path) -> dict[int, int]:
    """The last value of each key; a line that the kill has cut ends nothing."""
    found: dict[int, int] = {}
    for line in (folder / "topic.jsonl").read_text().splitlines():
        key, value = json.loads(line)
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


def test_a_topic_of_a_snapshot_in_columns_that_was_killed_twice_is_the_table(
    server: PostgresServer, database: str, tmp_path: Path
) -> None:
    run_sql(server, database, "create table t (id int primary key, v int)")
    run_sql(server, database, f"insert into t select g, 0 from generate_series(1, {ROWS}) g")
    for turn, still in ((1, ROWS // 4), (2, ROWS // 2)):
        count, in_columns = killed_at(server, database, tmp_path, still)
        assert still <= count == in_columns < still + PIECE, "killed inside of the snapshot, which is in columns"
        last = ROWS - 1000 * turn
        run_sql(  # rows that were told, that were not, and new ones
            server,
            database,
            f"update t set v = {turn} where id % 97 = {turn}; delete from t where id between {last} and {ROWS}; "
            f"insert into t values ({ROWS + turn}, {turn})",
        )
    child = process(server, database, tmp_path, 0)
    assert child.stdout is not None
    assert child.stdout.readline()
    run_sql(server, database, "delete from t where id % 1000 = 7; update t set v = 9 where id = 8")
    run_sql(server, database, "insert into t values (-1, 0)")
    last = (child.communicate(timeout=200)[0].splitlines() or [""])[-1]
    assert child.returncode == 0, last
    with connected(server, database) as connection:
        rows = dict(connection.execute("select id, v from t").fetchall())
    assert replayed(tmp_path) == rows
