"""Columns whose values are structs, and what Debezium says of defaults; tests/compat has Debezium itself say the rest."""

from __future__ import annotations

from struct import unpack_from

import pytest

from ottla.connect import DataError
from ottla.connectors.cdc import geometry
from ottla.connectors.cdc.column_kinds import ColumnType, KindSettings, kind_of
from tests.connectors.cdc.replay import as_facts, begun, read_until_quiet, run_sql
from tools.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)


def points(wkb: bytes, at: int) -> list[tuple[float, float]]:
    [count] = unpack_from("<I", wkb, at - 4)
    return [unpack_from("<dd", wkb, at + 16 * each) for each in range(count)]


def test_boxes_and_polygons_are_rings_that_end_where_they_begin() -> None:
    box = geometry.geometry("box", b"(2,3),(0,1)")
    assert points(box["wkb"], 13) == [(2, 3), (2, 1), (0, 1), (0, 3), (2, 3)]
    polygon = geometry.geometry("polygon", b"((0,0),(1,1),(1,0))")
    assert points(polygon["wkb"], 13) == [(0, 0), (1, 1), (1, 0), (0, 0)]
    assert polygon["extensions"] == {"type": "polygon"}


@pytest.mark.parametrize(("text", "closed"), [(b"[(0,0),(1e300,-1.5)]", "false"), (b"((0,0),(1e300,-1.5))", "true")])
def test_paths_say_whether_they_are_closed(text: bytes, closed: str) -> None:
    path = geometry.geometry("path", text)
    assert points(path["wkb"], 9) == [(0, 0), (1e300, -1.5)]
    assert path["extensions"] == {"type": "path", "closed": closed}


def test_what_is_no_geometry_is_told() -> None:
    with pytest.raises(DataError, match="no geometry"):
        geometry.circle(b"<(1,2)>")


def test_columns_of_structs_may_be_keys_and_not_null(server: PostgresServer, database: str) -> None:
    run_sql(
        server,
        database,
        "create table t (n numeric primary key, m numeric not null default 12.5, p point not null, c circle); "
        "insert into t values (1.50, 2, '(1,2)', '<(0,0),1>')",
    )
    name = f"structs_{database}"
    task = begun(server, database, None, **{"topic.prefix": name})
    records = read_until_quiet(task, None, 0.2)
    run_sql(server, database, "update t set n = 3; delete from t")
    records += read_until_quiet(task, None, 0.3)
    task.stop()
    rows = as_facts(records)[f"{name}.public.t"]
    assert [None if each["value"] is None else each["value"]["op"] for each in rows] == ["r", "d", None, "c", "d", None]
    assert rows[0]["key"]["n"]["scale"] == 1 and rows[0]["value"]["after"]["p"]["x"] == 1.0


@pytest.mark.parametrize(("skipped", "left"), [("d", ["c"]), ("c", ["d", None]), ("c,d", []), ("u", [])])
def test_operations_that_are_left_out_are_so_where_a_key_changes(
    server: PostgresServer, database: str, skipped: str, left: list[str | None]
) -> None:
    run_sql(server, database, "create table t (id int primary key); insert into t values (1)")
    settings = {"topic.prefix": f"skips_{database}", "snapshot.mode": "no_data", "skipped.operations": skipped}
    task = begun(server, database, None, **settings)
    run_sql(server, database, "update t set id = 2")
    records = read_until_quiet(task, None, 0.3)
    task.stop()
    assert [None if each.value is None else each.value["op"] for each in records] == left


def test_schemas_say_what_columns_are_in_the_database_where_that_is_asked_for(
    server: PostgresServer, database: str
) -> None:
    run_sql(
        server,
        database,
        "create domain code as varchar(8); "
        "create table t (id serial primary key, v varchar(5), n numeric(7,2), ts timestamp(3)[], c code); "
        "insert into t (v) values ('x')",
    )
    name = f"types_{database}"
    wanted = {"column.propagate.source.type": "public.t.(id|v|ts)", "datatype.propagate.source.type": ".*\\.CODE"}
    task = begun(server, database, None, **{"topic.prefix": name, **wanted})
    [row] = as_facts(read_until_quiet(task, None, 0.2))[f"{name}.public.t"]
    task.stop()
    assert "parameters" not in row["key_schema"]["fields"][0]
    fields = {each["field"]: each.get("parameters") for each in row["value_schema"]["fields"][1]["fields"]}

    def about(*values: str) -> dict[str, str]:
        return dict(
            zip(
                [f"__debezium.source.column.{each}" for each in ("type", "length", "scale", "name")],
                values,
                strict=True,
            )
        )

    assert fields["id"] == about("SERIAL", "10", "0", "id")
    assert fields["v"] == about("VARCHAR", "5", "0", "v")
    assert fields["n"] == {"scale": "2", "connect.decimal.precision": "7"}
    assert fields["ts"] == about("_TIMESTAMP", "26", "3", "ts")
    assert fields["c"] == about("CODE", "8", "0", "c")


def test_timestamps_beyond_what_python_tells_keep_their_milliseconds() -> None:
    kind = kind_of(ColumnType(1114, "timestamp"), KindSettings(time="connect"))
    assert kind is not None and kind.parse(b"20000-01-01 00:00:00.5").ms == 568_971_820_800_500
    micro = kind_of(ColumnType(1114, "timestamp"), KindSettings())
    assert micro is not None and micro.parse(b"20000-01-01 00:00:00.5") == 568_971_820_800_500_000
