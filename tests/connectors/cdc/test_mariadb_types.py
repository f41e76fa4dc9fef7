"""Values of all types are the same whether a snapshot or the binlog tells them, in every mode,
with and without names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import SourceRecord
from tests.connectors.cdc.mariadb_replay import begun, connected, read, run_sql
from tests.connectors.contexts import Store
from tools.mariadb import MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(180)
TABLE = (
    """create table t (id int primary key, u uuid, i6 inet6, i4 inet4, v varchar(300), vs varchar(300) charset latin1,
c char(200), b binary(20), vb varbinary(400), tt tinytext, mt mediumtext charset ucs2, lb longblob, j json,
e enum("""
    + ", ".join(f"'e{each}'" for each in range(300))
    + """), s set("""
    + ", ".join(f"'s{each}'" for each in range(40))
    + """), t1 time(1), t2 time(2), t4 time(4), t5 time(5), d1 datetime(1), d2 datetime(2), d4 datetime(4),
d5 datetime(5),
s1 timestamp(1) null, s2 timestamp(2) null, s5 timestamp(5) null, n65 decimal(65,30), n9 decimal(9,9), n1 decimal(1),
n10 decimal(10,9) unsigned, f float, fu float unsigned, db double(20,5), b1 bit(1), b33 bit(33), y year,
sj varchar(20) charset sjis, kr varchar(20) charset koi8r, g geometry, mp multipoint, cc char(10) charset utf8mb4)"""
)
ROWS = (
    """(1, '01890a5d-ac96-774b-bcce-b302099a8057', '2001:db8::ff00:42:8329', '10.0.0.255', repeat('ä', 300),
repeat('é', 300),
repeat('x', 200), 'ab\\0', repeat('\\0', 400), 'ü', 'ж漢', repeat('z', 70000), '{"a": [1, null,
"\\\\u00e9"]}', 'e299', 's0,s39',
'-838:59:58.9', '00:00:00.01', '-00:00:00.0001', '12:34:56.78912', '2024-02-29 23:59:59.9', '1000-01-01 00:00:00.05',
'9999-12-31 23:59:59.9999', '1969-12-31 23:59:59.99999', '2038-01-19 03:14:07.9', '1970-01-01 00:00:01.01', '2001-09-09
01:46:40.00001', -99999999999999999999999999999999999.999999999999999999999999999999, -0.000000001, -9, 9.999999999,
1.17549e-38, 3.4e38, 123456789012345.12345, 1, 0x1FFFFFFFF, 2155, 'ｱ漢', 'жук', st_geomfromtext('POINT(1 2)', 4326),
st_geomfromtext('MULTIPOINT(1 1,2 2)'), 'e   ')""",
    """(2, '00000000-0000-1000-8000-000000000000', '::', '0.0.0.0', '', '', '', '', '', '', '', '', '{}',
'e0', '', '00:00:00',
'838:59:59.99', '-12:00:00.5', '-00:00:01', '0000-00-00', '2024-00-01', '2024-01-01', '2024-12-31 12:00:00',
0, null, null, 0,
0.999999999, 9, 0, -0.1, 0, -0.00001, 0, 0, 0, '', '', null, null, '')""",
    "(3" + ", null" * 40 + ")",
    """(4, 'ffffffff-ffff-1fff-bfff-ffffffffffff', '::ffff:1.2.3.4', '255.255.255.255', 'a', 'b', 'c', 'd',
'e', 'f', 'g', 'h',
'[1.10, 2e3]', 'e254', 's1,s2,s3', '01:00:00.5', '-00:00:00.99', '00:00:59.9999', '00:59:00.00001',
'2024-06-30 00:00:00.1',
'2024-06-30 00:00:00.99', '2024-06-30 00:00:00.0001', '2024-06-30 00:00:00.00001', '2024-06-30 00:00:00',
'2024-06-30 00:00:00.1',
'2024-06-30 00:00:00.12345', 1.5, 0.5, 1, 1.5, 16777217, 0.1, 1e14, 1, 1, 1999, 'ソ', 'ё',
st_geomfromtext('LINESTRING(0 0,1 1)'),
st_geomfromtext('MULTIPOINT(0 0)', 3857), 'é')""",
)
MODES = (
    {},
    {
        "decimal.handling.mode": "string",
        "time.precision.mode": "connect",
        "binary.handling.mode": "hex",
        "bigint.unsigned.handling.mode": "precise",
    },
    {"decimal.handling.mode": "double", "time.precision.mode": "isostring", "binary.handling.mode": "base64"},
    {"time.precision.mode": "nanoseconds"},
    {"time.precision.mode": "microseconds"},
)


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as found:
        yield found


def values_of(records: list[SourceRecord]) -> dict[int, dict[str, Any]]:
    found = {}
    for each in records:
        after = each.value["after"]
        row = {field.name: after[field.name] for field in after.schema.struct_fields}
        found[row["id"]] = {name: getattr(value, "values", value) for name, value in row.items()}
    return found


@pytest.mark.parametrize("mode", MODES, ids=lambda each: each.get("time.precision.mode", "plain"))
@pytest.mark.parametrize("metadata", ["NO_LOG", "FULL"])
def test_snapshot_and_binlog_give_the_same(
    server: MariaDbServer, tmp_path: Path, mode: dict[str, str], metadata: str
) -> None:
    database = server.new_database()
    run_sql(server, f"create database {database} charset utf8mb4; set global binlog_row_metadata = {metadata}")
    settings = {"topic.prefix": "p", "database.include.list": database, "include.schema.changes": "false", **mode}
    run_sql(server, TABLE, database)
    store = Store()
    task = begun(server, tmp_path / "a", store, **settings, **{"snapshot.mode": "no_data"})
    read(task, 1, store)
    with connected(server, database) as connection, connection.cursor() as cursor:
        cursor.execute("set sql_mode = ''")
        for row in ROWS:
            cursor.execute(f"insert into t values {row}")
    streamed = values_of(read(task, 4, store))
    task.stop()
    task = begun(server, tmp_path / "b", None, **settings)
    snapshot = values_of(read(task, 4))
    task.stop()
    assert set(streamed) == set(snapshot) == {1, 2, 3, 4}
    for number, row in snapshot.items():
        assert streamed[number] == row, number
    if not mode:
        first = snapshot[1]
        assert first["u"] == "01890a5d-ac96-774b-bcce-b302099a8057" and first["i6"] == "2001:db8::ff00:42:8329"
        assert (
            first["v"] == "ä" * 300
            and first["b"] == b"ab" + bytes(18)
            and first["mt"] == "ж漢"
            and first["kr"] == "жук"
        )
        assert first["e"] == "e299" and first["s"] == "s0,s39" and first["b33"] == bytes.fromhex("ffffffff01")
        assert str(first["n65"]) == "-99999999999999999999999999999999999.999999999999999999999999999999"
        assert first["t1"] == -3_020_398_900_000 and first["s5"] == "2001-09-09T01:46:40.00001Z"
        assert set(map(str, list(snapshot[3].values())[1:])) == {"None"}


def test_a_row_of_many_packets_comes_whole(server: MariaDbServer, tmp_path: Path) -> None:
    database = server.new_database()
    run_sql(server, f"create database {database}; set global max_allowed_packet = {64 << 20}")
    run_sql(server, "create table t (id int primary key, b longblob)", database)
    task = begun(server, tmp_path / "h", None, **{"topic.prefix": "p", "database.include.list": database})
    read(task, 1)
    run_sql(
        server, f"insert into t values (1, repeat('x', {17 << 20})), (2, 'y'), (3, repeat('z', {16 << 20}))", database
    )
    found = read(task, 3)
    task.stop()
    assert [(each.value["after"]["id"], len(each.value["after"]["b"])) for each in found] == [
        *((1, 17 << 20), (2, 1), (3, 16 << 20)),
    ]
