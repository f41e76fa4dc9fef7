"""What a binlog may hold beside plain transactions: ones of two phases, compressed events, other sources' transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import SourceRecord
from ottla.connectors.cdc.mysql import prepared
from tests.connectors.cdc.mariadb_replay import begun, connected, read, run_sql
from tests.connectors.cdc.test_mariadb_source import settings_of, told
from tests.connectors.contexts import Store
from tools.mariadb import CAPTURED, MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server([*CAPTURED, "--log-bin-compress=ON", "--log-bin-compress-min-len=10"]) as found:
        yield found


@pytest.fixture
def database(server: MariaDbServer) -> str:
    name = server.new_database()
    run_sql(
        server, f"create database {name} character set utf8mb4; create table {name}.t (id int primary key, v longtext)"
    )
    return name


def xa(name: str, *statements: str) -> str:
    """Return the statements of a transaction that is prepared at its end."""
    return "; ".join((f"xa start '{name}'", *statements, f"xa end '{name}'", f"xa prepare '{name}'"))


@pytest.fixture(params=["in memory", "read again"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether transactions that are prepared are kept, or too large for that."""
    if request.param == "read again":
        monkeypatch.setattr(prepared, "HELD_BYTES_MAX", 0)
    return str(request.param)


@pytest.mark.parametrize(
    ("memory", "has_metadata"),
    [
        ("in memory", "false"),
        ("read again", "true"),
        pytest.param("in memory", "true", marks=pytest.mark.slow),  # each of these values is in one of those
        pytest.param("read again", "false", marks=pytest.mark.slow),
    ],
    indirect=["memory"],
)
@pytest.mark.usefixtures("memory")
def test_a_prepared_transaction_is_told_at_its_commit_and_never_where_it_is_rolled_back(
    server: MariaDbServer, database: str, tmp_path: Path, has_metadata: str
) -> None:
    store, history = Store(), tmp_path / "history"
    settings = settings_of(database, snapshot_mode="no_data", provide_transaction_metadata=has_metadata)
    task = begun(server, history, store, **settings)
    read(task, 1, store)
    run_sql(server, xa("a", "insert into t values (1, 'x'), (2, 'y')", "update t set v = 'z' where id = 2"), database)
    run_sql(server, xa("b", "insert into t values (3, 'never')"), database)
    run_sql(server, "insert into t values (4, 'plain')", database)
    run_sql(server, "xa rollback 'b'", database)
    run_sql(server, "flush binary logs; insert into t values (5, 'in another file')", database)
    run_sql(server, "xa commit 'a'; insert into t values (6, 'last')", database)
    extra = 2 if has_metadata == "true" else 0
    found = read(task, 6 + 4 * extra)
    task.stop()
    assert changes(found) == [("c", 4), ("c", 5), ("c", 1), ("c", 2), ("u", 2), ("c", 6)]
    for cut in range(len(found) + 1):  # wherever it goes on, before the commit, within, or behind
        again = Store()
        again.offsets = dict(store.offsets)
        again.take(found[:cut])
        stored = max((at + 1 for at in range(cut) if found[at].source_offset is not None), default=0)
        task = begun(server, history, again, **settings)
        left = read(task, len(found) - stored)
        task.stop()
        assert [each.topic for each in left] == [each.topic for each in found[stored:]], cut
        assert changes(left) == changes(found[stored:]), cut


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_poll_was_the_last_nothing_comes_twice_and_nothing_is_missing(
    server: MariaDbServer, database: str, tmp_path: Path, every: int
) -> None:
    """As with exactly-once, where the records of a poll are there even if none of them has an offset."""
    store, history = Store(), tmp_path / "history"
    own = {"snapshot.mode": "no_data", "provide.transaction.metadata": "true", "max.batch.size": "1"}
    settings = {**settings_of(database), **own, "include.schema.changes": "true"}
    task = begun(server, history, store, **settings)
    read(task, 1, store)
    run_sql(
        server,
        "insert into t values (1, 'x'), (2, 'y'); delete from t where id = 1; create table made select 5 as id, 'x' as v; "
        + xa("p", "insert into t values (3, 'z'), (4, 'z')"),
        database,
    )
    run_sql(server, "begin; insert into t values (5, 'a'); update t set id = 6 where id = 5; commit", database)
    run_sql(server, "xa commit 'p'; alter table t add column w int", database)
    whole = read(task, 23)
    task.stop()
    kinds = Counter(str(each.topic).rpartition(".")[2] for each in whole)
    assert kinds["transaction"] == 10 and kinds["t"] == 10 and kinds["made"] == 1
    for cut in range(0, len(whole), every):
        again, found = Store(), list[SourceRecord]()
        again.offsets = dict(store.offsets)
        task = begun(server, history, again, **settings)
        while len(found) <= cut:
            polled = task.poll() or []
            again.take(polled)
            found += polled
        task.stop()
        task = begun(server, history, again, **settings)
        found += read(task, len(whole) - len(found))
        task.stop()
        assert [gist(each) for each in found] == [gist(each) for each in whole], cut


def gist(record: SourceRecord) -> Any:
    """What a record says, but for times."""
    value = record.value
    names = () if value is None else ("op", "status", "event_count", "ddl", "after", "transaction")
    fields = () if value is None else {each.name for each in value.schema.struct_fields}
    return record.topic, [repr(value[name]) for name in names if name in fields]


def changes(records: list[SourceRecord]) -> list[Any]:
    return told([each for each in records if str(each.topic).endswith(".t")])


def test_a_transaction_that_is_committed_long_after_a_restart_is_told(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    store, history, settings = Store(), tmp_path / "history", settings_of(database, snapshot_mode="no_data")
    task = begun(server, history, store, **settings)
    read(task, 1, store)
    run_sql(server, xa("n", "insert into t values (1, 'x')") + "; ", database)
    run_sql(server, "insert into t values (2, 'y')", database)
    assert changes(read(task, 1, store)) == [("c", 2)]
    task.stop()
    for turn in (3, 4):
        run_sql(server, f"flush binary logs; insert into t values ({turn}, 'y')", database)
        task = begun(server, history, store, **settings)
        assert changes(read(task, 1, store)) == [("c", turn)]
        task.stop()
    task = begun(server, history, store, **settings)
    run_sql(server, "xa commit 'n'; insert into t values (5, 'y')", database)
    found = read(task, 2, store)
    task.stop()
    assert changes(found) == [("c", 1), ("c", 5)]
    assert not any("xa_prepared" in each for each in store.offsets.values())


@pytest.mark.parametrize("mode", ["initial", "no_data"])
def test_a_transaction_that_was_prepared_before_the_first_start_is_told_at_its_commit(
    server: MariaDbServer, database: str, tmp_path: Path, mode: str
) -> None:
    run_sql(server, xa(f"a'{mode}".replace("'", "''"), "insert into t values (1, 'x')"), database)
    run_sql(server, xa(f"b{mode}", "insert into t values (2, 'never')"), database)
    run_sql(server, "insert into t values (3, 'z'); flush binary logs", database)
    store, history, settings = Store(), tmp_path / "history", settings_of(database, snapshot_mode=mode)
    task = begun(server, history, store, **settings)
    read(task, 1, store)
    task.stop()
    task = begun(server, history, store, **settings)
    run_sql(server, f"xa commit 'a''{mode}'; xa rollback 'b{mode}'; insert into t values (4, 'z')", database)
    assert changes(read(task, 2, store)) == [("c", 1), ("c", 4)]
    task.stop()


def test_a_large_transaction_that_is_committed_comes_in_polls_of_the_usual_size(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    task = begun(
        server, tmp_path / "history", None, **settings_of(database, snapshot_mode="no_data", max_batch_size="100")
    )
    read(task, 1)
    run_sql(
        server,
        xa("l", *(f"insert into t select seq, 'v' from seq_{n}_to_{n + 49}" for n in range(1, 1000, 50))),
        database,
    )
    run_sql(server, "xa commit 'l'", database)
    sizes: list[int] = []
    while sum(sizes) < 1000:
        sizes.append(len(task.poll() or ()))
    task.stop()
    assert sum(sizes) == 1000 and max(sizes) < 200


def test_compressed_rows_and_statements_are_read_as_plain_ones(
    server: MariaDbServer, database: str, tmp_path: Path
) -> None:
    store, history, settings = Store(), tmp_path / "history", settings_of(database, include_query="true")
    task = begun(server, history, store, **settings)
    read(task, 1, store)
    long = "x" * 70_000
    run_sql(
        server,
        f"begin; insert into t values (1, '{long}'), (2, null); update t set v = concat(v, 'y') where id = 1; "
        f"delete from t where id = 2; commit; alter table t add column w varchar(20) default '{'d' * 15}' "
        f"comment '{long[:900]}'; "
        f"insert into t (id, v) values (3, '{long[:300]}')",
        database,
    )
    found = read(task, 6)
    assert told(found) == [("c", 1), ("c", 2), ("u", 1), ("d", 2), None, ("c", 3)]
    assert found[2].value["after"]["v"] == long + "y" and found[2].value["before"]["v"] == long
    assert found[5].value["after"]["w"] == "d" * 15
    task.stop()
    with connected(server) as connection, connection.cursor() as cursor:
        cursor.execute("show binlog events in 'binlog.000001' limit 10000")
        assert any("compressed" in str(each[2]).lower() for each in cursor.fetchall())
    for cut in range(len(found)):
        again = Store()
        again.offsets = dict(store.offsets)
        again.take(found[: cut + 1])
        stored = max((at + 1 for at in range(cut + 1) if found[at].source_offset is not None), default=0)
        task = begun(server, history, again, **settings)
        left = read(task, len(found) - stored)
        task.stop()
        assert told(left) == told(found)[stored:], cut


def test_rows_of_sources_that_are_left_out_are_not_told(server: MariaDbServer, database: str, tmp_path: Path) -> None:
    def run_as(number: int, id_: int) -> None:
        run_sql(
            server,
            f"set server_id = {number}; set gtid_domain_id = {number}; insert into t values ({id_}, '')",
            database,
        )

    tasks = {
        name: begun(server, tmp_path / name, None, **settings_of(database, snapshot_mode="no_data"), **given)
        for name, given in {
            "includes": {"gtid.source.includes": "0-1, [37]-[37]"},
            "excludes": {"gtid.source.excludes": "7-.*"},
            "start alone": {"gtid.source.includes": "0-1", "gtid.source.filter.dml.events": "false"},
        }.items()
    }
    for each in tasks.values():
        read(each, 1)
    for number in (1, 3, 7, 9):
        run_as(number, number)
    run_sql(server, "insert into t values (100, '')", database)
    found = {name: told(read(each, 3)) for name, each in tasks.items()}
    for each in tasks.values():
        each.stop()
    assert found == {
        "includes": [("c", 3), ("c", 7), ("c", 100)],
        "excludes": [("c", 1), ("c", 3), ("c", 9), ("c", 100)],
        "start alone": [("c", 1), ("c", 3), ("c", 7), ("c", 9), ("c", 100)],
    }
