"""Forms that need no server: GTIDs of both servers, places, statements about tables, rows' bytes, the history's records."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import ConnectError, DataError
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql import rows
from ottla.connectors.cdc.mysql.ddl import follow
from ottla.connectors.cdc.mysql.ddl_words import DdlError
from ottla.connectors.cdc.mysql.gtids import Executed, GtidFilter, MariaDbGtids, MySqlGtids
from ottla.connectors.cdc.mysql.history import history_record, history_store, recovered
from ottla.connectors.cdc.mysql.kinds import SqlKinds, default_of, kind_of, shortest_single
from ottla.connectors.cdc.mysql.positions import Position
from ottla.connectors.cdc.mysql.rows import RowFormat, WireColumn, json_text
from ottla.connectors.cdc.mysql.settings import BINLOG_DEF
from ottla.connectors.cdc.mysql.tables import SqlColumn, SqlType, Tables

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4c9e3dfc-9d25-11e9-8d2e-0242ac1cfd7e"


def test_sets_of_mysql_are_read_joined_and_compared() -> None:
    found = MySqlGtids.of(f"{A.upper()}:1-3:11:47-49,\n{B}:5, {A}:4")
    assert str(found) == f"{A}:1-4:11:47-49,{B}:5"
    assert str(found.plus(f"{A}:5").plus(f"{B}:6")) == f"{A}:1-5:11:47-49,{B}:5-6"
    assert found.holds(f"{A}:2-4,{B}:5") and not found.holds(f"{A}:2-5") and not found.holds(f"{B}:4-5")
    assert found.holds("") and str(MySqlGtids.of("")) == ""
    tagged = MySqlGtids.of(f"{A}:1-3:backup:1-2:5")
    assert str(tagged) == f"{A}:1-3,{A}:backup:1-2:5" and not tagged.holds(f"{A}:4")
    for text in ("x:1", A, f"{A}:3-1", f"{A}:0", f"{A}:1-"):
        with pytest.raises(DataError):
            MySqlGtids.of(text)


@pytest.mark.parametrize(
    ("mine", "executed", "missing"),
    [
        ("0-1-5", Executed("0-1-5"), ""),
        ("0-1-5", Executed("0-1-9,0-2-12"), ""),
        ("0-1-5", Executed("0-1-4"), "0-1-5"),
        ("0-1-5", Executed("0-1-3,0-2-7"), "0-1-5"),
        ("0-1-5", Executed("0-2-7"), "0-1-5"),
        ("0-1-5", Executed("", "0-1-5"), ""),
        ("0-1-5", Executed("", "0-1-6"), "0-1-5"),
        ("0-1-5,7-1-3", Executed("0-1-5"), "7-1-3"),
        ("0-1-5,8-1-3", Executed("0-1-5"), ""),
        (f"{A}:1-5", Executed(f"{A}:1-5:7,{B}:1"), ""),
        (f"{A}:1-5,{B}:1-2", Executed(f"{A}:1-4,{B}:1-2", own=B), f"{A}:1-5"),
        (f"{A}:1-5,{B}:1-2", Executed(f"{A}:1-4,{B}:1-2", own=A.upper()), ""),
        (f"{A}:1-5", Executed(f"{A}:1-3:5", own=B), f"{A}:1-5"),
        (f"{A}:1-5", Executed("", own=B), f"{A}:1-5"),
        ("", Executed("0-1-5"), ""),
    ],
)
def test_what_a_server_has_not_executed_of_what_was_told_is_missing(
    mine: str, executed: Executed, missing: str
) -> None:
    settings = {"gtid.source.includes": None, "gtid.source.excludes": "8-.*", "gtid.source.filter.dml.events": True}
    assert GtidFilter(settings).missing(mine, executed) == missing


def test_positions_of_mariadb_have_the_last_transaction_of_each_domain() -> None:
    found = MariaDbGtids.of("1-2-7,0-1-100,0-3-99")
    assert str(found) == "0-1-100,1-2-7"
    assert str(found.plus("0-5-101")) == "0-5-101,1-2-7"
    assert found.holds("0-9-100") and not found.holds("0-1-101") and not found.holds("2-1-1")
    with pytest.raises(DataError):
        MariaDbGtids.of("0-1")


def test_an_offset_is_debeziums_and_debeziums_own_brings_its_transaction_once_more() -> None:
    at = Position("binlog.000002", 300, "0-1-5")
    within = at.within(3, 2, "0-1-6", 1)
    assert within.offset() == {
        "file": "binlog.000002",
        "pos": 300,
        "gtids": "0-1-5",
        "event": 3,
        "row": 2,
        "resume_gtid": "0-1-6",
        "resume_server": 1,
    }
    assert Position.of(within.offset()) == within
    assert Position.of({"file": "binlog.000002", "pos": 300, "gtids": "0-1-5", "event": 3, "row": 2, "ts_sec": 1}) == at
    assert at.behind(500, "0-1-6") == Position("binlog.000002", 500, "0-1-6")
    for wrong in ({}, {"file": "x"}, {"file": "x", "pos": "4"}, {"file": "x", "pos": 4, "gtids": "?"}):
        with pytest.raises(ConnectError):
            Position.of(wrong)


@pytest.mark.parametrize(
    ("mine", "theirs", "is_held"),
    [
        (Position("b.000009", 50), {"file": "b.000010", "pos": 4}, False),
        (Position("b.000010", 4), {"file": "b.000009", "pos": 50, "event": 1}, True),
        (Position("b.1", 50), {"file": "b.1", "pos": 50, "event": 1}, False),
        (Position("b.1", 50, event=1), {"file": "b.1", "pos": 50, "event": 1}, True),
        (Position("b.1", 50, "0-1-5"), {"file": "other.7", "pos": 4, "gtids": "0-1-4", "event": 1}, True),
        (Position("b.9", 50, "0-1-5"), {"file": "a.1", "pos": 4, "gtids": "0-1-6", "event": 1}, False),
        (Position("b.1", 50, f"{A}:1-5"), {"file": "b.1", "pos": 40, "gtids": f"{A}:1-4"}, True),
    ],
)
def test_a_place_holds_what_was_told_before_it(mine: Position, theirs: dict[str, Any], is_held: bool) -> None:
    assert mine.holds(theirs) is is_held


def after(*statements_: str, database: str = "d") -> Tables:
    tables = Tables()
    for each in statements_:
        follow(each, database, tables, {"": "latin1", "d": "utf8mb4"})
    return tables


def columns(tables: Tables, name: str = "t") -> list[str]:
    return [
        f"{each.name} {each.type.expression}{'!' if each.is_required else ''}"
        f"{'' if each.default is None else ' ' + each.default}"
        for each in tables[TableId("d", name)].columns
    ]


def test_definitions_of_columns_are_read_in_all_their_forms() -> None:
    tables = after(
        """create table if not exists `d`.`t` ( -- a comment
        `a``b` int(11) unsigned zerofill NOT NULL default '5' comment 'it''s, (so)', /* another */
        b integer /*!50100 not null */,
        c double precision default -1.5, d national varchar(5), e char byte, f bool default true, g text(300),
        h varchar(10) binary character set latin1, i enum('a)','b,c') default 'b,c', j set("x", 'y') not null,
        k numeric(8), l timestamp(3) not null default current_timestamp(3) on update current_timestamp(3),
        m int generated always as (`b` + (1)) stored, n varchar(5) default (concat('a', 'b')), o serial,
        p float(53), q blob(70000), r json default '{}' check (json_valid(`r`)), s varchar(9) charset binary,
        t bit default b'1',
        primary key (`a``b`, c), unique key u (b), key k (d(3) desc),
        constraint x foreign key (b) references z (y) on delete set null,
        fulltext key ft (g), check (b > 0)
        ) engine=InnoDB default charset=utf8mb3 comment='x' partition by hash (b) partitions 4"""
    )
    assert columns(tables) == [
        *("a`b INT UNSIGNED ZEROFILL! 5", "b INT!", "c DOUBLE! -1.5", "d VARCHAR", "e BINARY", "f TINYINT 1", "g TEXT"),
        *("h VARCHAR", "i ENUM b,c", "j SET!", "k DECIMAL", "l TIMESTAMP! CURRENT_TIMESTAMP", "m INT", "n VARCHAR"),
        *("o BIGINT UNSIGNED!", "p DOUBLE", "q MEDIUMBLOB", "r JSON {}", "s VARBINARY", "t BIT 1"),
    ]
    table = tables[TableId("d", "t")]
    assert table.key == ("a`b", "c") and table.comment == "x" and table.columns[0].comment == "it's, (so)"
    charsets = {each.name: each.type.charset for each in table.columns}
    assert (charsets["h"], charsets["i"], charsets["g"], charsets["b"]) == ("latin1", "utf8mb3", "utf8mb3", None)


def test_alters_are_followed() -> None:
    made = "create table t (id int primary key, a varchar(5), b int not null, unique key ub (b))"
    assert columns(after(made, "alter table t add c int after id, add (d int, e int), drop a")) == [
        *("id INT!", "c INT", "b INT!", "d INT", "e INT"),
    ]
    assert columns(after(made, "ALTER TABLE d.t CHANGE COLUMN a `z` bigint FIRST, MODIFY id bigint")) == [
        *("z BIGINT", "id BIGINT!", "b INT!"),
    ]
    assert columns(
        after(made, "alter table t rename column a to q, alter b set default 3, alter column q drop default")
    ) == [
        *("id INT!", "q VARCHAR", "b INT! 3"),
    ]
    assert columns(after(made, "alter table t rename to u"), "u") == columns(after(made))
    tables = after(made, "alter table t drop primary key")
    assert tables[TableId("d", "t")].key == ("b",)
    assert after(made, "alter table t drop primary key, drop key ub")[TableId("d", "t")].key == ()
    assert after(made, "alter table t drop primary key", "drop index ub on t")[TableId("d", "t")].key == ()
    other = after("create table t (a int not null, b int)", "create unique index x on t (a)")
    assert other[TableId("d", "t")].key == ("a",)
    assert after(made, "create table u like t")[TableId("d", "u")].key == ("id",)
    swapped = after(made, "create table u (x int)", "rename table t to v, u to t, v to u")
    assert columns(swapped) == ["x INT"] and columns(swapped, "u") == columns(after(made))
    converted = after(made, "alter table t convert to character set latin1 collate latin1_bin")
    assert converted[TableId("d", "t")].columns[1].type.charset == "latin1"
    for harmless in (
        "alter table t add index (a), add constraint f foreign key (b) references x (y), engine=InnoDB, order by a",
        "alter table t disable keys",
        "alter table t add partition (partition p1 values less than (10))",
        "create user x identified by 'y'",
        "create or replace view w as select 1",
        "analyze table t",
        "create temporary table t (z int)",
        "create table if not exists t (z int)",
        "drop table if exists nothing",
        "create trigger x before insert on t for each row begin set new.a = 'create table t (q int)'; end",
    ):
        assert columns(after(made, harmless)) == columns(after(made)), harmless
    assert not after(made, "drop database d")
    assert not after(made, "DROP TABLE `t` /* generated by server */")
    assert columns(after(made, "alter table unknown add x int", "rename table a_view to another")) == columns(
        after(made)
    )
    with pytest.raises(DdlError, match=r"Table d\.unknown is not known"):
        after(made, "create table x like unknown")


def test_rows_bytes_become_values_and_what_was_not_sent_is_told_apart() -> None:
    types = [
        SqlType("INT"),
        SqlType("DECIMAL", 14, 4),
        SqlType("VARCHAR", 10, charset="utf8mb4"),
        SqlType("DATETIME", 6),
    ]
    wires = [
        *(WireColumn(rows.LONG), WireColumn(rows.NEWDECIMAL, 14, 4), WireColumn(rows.VARCHAR, 40)),
        WireColumn(rows.DATETIME2, 6),
    ]
    reader = RowFormat(types, wires)
    # the manual's example of a packed decimal: 1234567890.1234 is 81 0D FB 38 D2 04 D2
    body = b"\x0f" + b"\x08" + (7).to_bytes(4, "little") + bytes.fromhex("810dfb38d204d2") + b"\x03abc"
    [(before, row)] = reader.rows(body, is_update=False)
    assert before is None and row == [7, Decimal("1234567890.1234"), "abc", None]
    negative = b"\x0f\x08" + bytes(4) + bytes.fromhex("7ef204c72dfb2d") + b"\x00"
    assert next(iter(reader.rows(negative, is_update=False)))[1][1] == Decimal("-1234567890.1234")
    partial = b"\x01\x05" + b"\x00" + (1).to_bytes(4, "little") + b"\x00" + (2).to_bytes(4, "little") + b"\x01x"
    [(old, new)] = reader.rows(partial, is_update=True)
    assert old is not None and old[0] == 1 and old[1] is rows.UNCHANGED and new[2] == "x" and new[3] is rows.UNCHANGED
    with pytest.raises((DataError, IndexError, ValueError)):
        list(reader.rows(body[:-2], is_update=False))
    with pytest.raises(DataError, match="character set klingon"):
        RowFormat([SqlType("CHAR", 5, charset="klingon")], [WireColumn(rows.STRING, 5)])


def test_mysqls_json_is_read() -> None:
    # {"a": 1}: a small object of one key, as the server's documentation lays it out
    assert json_text(bytes.fromhex("0001000c000b00010005010061")) == '{"a":1}'
    assert json_text(b"") == "null" and json_text(b"\x04\x01") == "true"


def test_a_single_prints_as_a_single() -> None:
    import struct

    for text in ("1.1", "0.1", "16777216.0", "3.4028235e+38", "1e-45", "-0.5"):
        [value] = struct.unpack("<f", struct.pack("<f", float(text)))
        assert struct.pack("<f", shortest_single(value)) == struct.pack("<f", value)
    [value] = struct.unpack("<f", struct.pack("<f", 1.1))
    assert shortest_single(value) == 1.1


def test_a_default_that_is_no_number_of_its_column_is_none_and_takes_no_time() -> None:
    for type_ in (SqlType("INT"), SqlType("DECIMAL", 10, 2)):
        kind = kind_of(type_, SqlKinds())
        assert [default_of(SqlColumn("a", type_, default=text), kind) for text in ("1e200000000", "1_0", "x")] == [
            None
        ] * 3
        assert default_of(SqlColumn("a", type_, default="12.0"), kind) == 12


def test_the_history_is_followed_as_far_as_a_place_and_a_torn_line_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "history"
    parsed = BINLOG_DEF.parse(
        {
            "database.hostname": "h",
            "database.user": "u",
            "topic.prefix": "p",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(path),
        }
    )
    store = history_store(parsed, {})
    assert recovered(store.load(), Position("b.1", 4), {}) is None
    tables: Tables = Tables()
    for at, statement in enumerate(
        (
            "create table t (id int primary key, e enum('a','it''s') default 'a', x bit(3) default b'101')",
            "alter table t add c decimal(5,2) unsigned not null default 1.5 comment 'k'",
            "rename table t to u",
        )
    ):
        effect = follow(statement, "d", tables, {"": "latin1"})
        place = {"file": "b.1", "pos": 100 * at, "event": 1}
        store.append([history_record("p", place, "d", statement, effect)])
    with path.open("a") as out:
        out.write('{"source": {"ser')
    assert recovered(store.load(), Position("b.1", 0), {}) == {}
    assert columns(recovered(store.load(), Position("b.1", 100), {}) or Tables()) == [
        *("id INT!", "e ENUM a", "x BIT 5"),
    ]
    found = recovered(store.load(), Position("b.2", 4), {})
    assert found is not None
    assert columns(found, "u") == [*columns(tables, "u")] and found[TableId("d", "u")].columns[1].type.values == (
        "a",
        "it's",
    )
    store.append([history_record("p", {"file": "b.1", "pos": 300, "event": 1}, "d", "drop table u", None)])
    assert len(list(store.load())) == 4


def test_debeziums_own_history_is_followed() -> None:
    import json

    from tests.connectors.cdc.mariadb_replay import MARIADB_RECORDED

    facts = json.loads((MARIADB_RECORDED / "facts" / "history_plain.json").read_text())
    records = [each["value"] for each in facts["records"]]
    tables = recovered(iter(records), Position("binlog.000009", 4), {"": "latin1"})
    assert tables is not None
    by_statement: Tables = Tables()
    charsets = {"": "latin1", "shop": "utf8mb4"}
    for each in records:
        effect = follow(each["ddl"], each["databaseName"], by_statement, charsets)
        assert [change.kind for change in effect.changes if change.kind != "TRUNCATE"] == [
            change["type"] for change in each["tableChanges"]
        ]
    assert set(tables) >= {each for each in by_statement if each.schema == "shop"}
    for name, table in by_statement.items():
        if name.schema == "shop":
            assert [each.name for each in tables[name].columns] == [each.name for each in table.columns]
            assert [each.type.expression for each in tables[name].columns] == [
                each.type.expression for each in table.columns
            ]
            assert tables[name].key == table.key


def test_a_datetime_of_the_year_0_keeps_its_milliseconds() -> None:
    kind = kind_of(SqlType("DATETIME", 3), SqlKinds(time="connect"))
    assert kind is not None and kind.parse(-62_167_219_200_000_000).ms == -62_167_219_200_000
