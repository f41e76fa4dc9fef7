"""Histories for MariaDB: each theme makes statements of one kind from the tables as they are; a history has a few themes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from tests.fuzz_capture.model import Table

__all__ = ["THEMES", "beginnings", "row_statement", "settings", "touch"]

Theme = Callable[[random.Random, Sequence[Table]], list[str]]
TEXTS = (
    "''",
    "'a'",
    "'é'",
    "'  x '",
    "'\\u0000'",
    "'😀'",
    "0xEFBBBF",
    "'\\\\'",
    "'ß—'",
    "repeat('long', 300)",
    "'NULL'",
)
VALUES: Mapping[str, Sequence[str]] = {
    "tinyint": ("-128", "127", "0", "1"),
    "tinyint unsigned": ("255", "0"),
    "smallint": ("-32768", "32767"),
    "mediumint unsigned": ("16777215", "0"),
    "int": ("-2147483648", "2147483647", "7"),
    "int unsigned": ("4294967295", "0"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "bigint unsigned": ("18446744073709551615", "0"),
    "decimal(65,30)": (
        "99999999999999999999999999999999999.999999999999999999999999999999",
        "-0.000000000000000000000000000001",
    ),
    "decimal(65,0)": (
        "99999999999999999999999999999999999999999999999999999999999999999",
        "340282366920938463463374607431768211455",
    ),
    "decimal(10,2)": ("-0.01", "12345678.90"),
    "float": ("1.1", "-3.4e38", "0", "16777217"),
    "double": ("0.1", "1e308", "-2.5e-300"),
    "bit(1)": ("0", "1"),
    "bit(20)": ("1048575", "0", "258"),
    "char(10)": TEXTS[:7],
    "varchar(400)": TEXTS,
    "text": TEXTS,
    "mediumtext": TEXTS,
    "binary(4)": ("0x00", "0x61000000", "'abcd'"),
    "varbinary(40)": ("''", "0x00ff", "'a '"),
    "blob": ("''", "0xfffefd00", "repeat('b', 5000)"),
    "date": ("'1000-01-01'", "'9999-12-31'", "'1969-12-31'", "'2024-02-29'"),
    "datetime": ("'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"),
    "datetime(3)": ("'2024-02-29 12:00:00.123'", "'1969-12-31 23:59:59.999'"),
    "datetime(6)": ("'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.999999'"),
    "timestamp(6) null": ("'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:07.999999'"),
    "time(6)": ("'-838:59:59.999999'", "'838:59:59.000001'", "'-00:00:00.000001'"),
    "year": ("1901", "2155", "0"),
    "enum('a','b','é','it''s')": ("'a'", "'é'", "'it''s'", "2"),
    "set('x','y','z')": ("''", "'x,z'", "7"),
    "json": ("'{}'", """'{"a": [1, "é", null]}'"""),
    "inet6": ("'::'", "'2001:db8::1'", "'::ffff:1.2.3.4'"),
    "inet4": ("'0.0.0.0'", "'255.1.2.3'"),
    "uuid": ("'123e4567-e89b-12d3-a456-426614174000'",),
    "point": ("point(1.5, -2)", "point(0, 1e10)"),
}
CHARSETS = (
    "latin1",
    "latin2",
    "cp1251",
    "utf8mb3",
    "utf8mb4",
    "ucs2",
    "utf16",
    "utf32",
    "ascii",
    "koi8r",
    "greek",
    "hebrew",
    "cp850",
)
HARD_CHARSETS = (
    "latin1",
    "euckr",
    "sjis",
    "cp932",
    "big5",
    "gbk",
    "gb2312",
    "ujis",
    "eucjpms",
    "tis620",
    "cp1250",
    "macroman",
    "armscii8",
    "geostd8",
    "keybcs2",
    "dec8",
    "hp8",
    "swe7",
    "latin5",
    "latin7",
    "cp852",
    "cp866",
    "cp1256",
    "cp1257",
    "macce",
    "koi8u",
    "utf16le",
    "greek",
    "hebrew",
    "cp1251",
)
NAMES = ("a", "b", "c", "d", "e", "f g", "ü", "select", "A1")


def settings(chance: random.Random) -> dict[str, str]:
    """Return the settings that a history's captures have beside the usual ones."""
    return {"max.batch.size": chance.choice(["2048", "7"])}


def quoted(name: str) -> str:
    """Return a name in a statement."""
    return f"`{name.replace('`', '``')}`"


def own(tables: Sequence[Table]) -> list[Table]:
    """Those that the generator has made."""
    return [each for each in tables if each.name not in ("ends_", "signals")]


def _type(chance: random.Random) -> str:
    return chance.choice(list(VALUES))


def _new(chance: random.Random, table: Table, besides: Sequence[str] = ()) -> str:
    free = [each for each in NAMES if each not in table.columns and each not in besides]
    return chance.choice(free or [f"z{chance.randrange(1000)}"])


def _changeable(table: Table) -> list[str]:
    return [each for each in table.columns if each not in ("n_", *table.key)]


def beginnings(chance: random.Random) -> list[str]:
    """Return what makes the first tables and rows."""
    found = []
    for name in ("t", "u", "v")[: chance.randint(2, 3)]:
        types = chance.sample(list(VALUES), chance.randint(2, 6))
        columns = ", ".join(f"{quoted(each)} {kind}" for each, kind in zip(NAMES, types, strict=False))
        key = chance.choice(["id int primary key", "id int primary key", "id int", "id bigint unsigned primary key"])
        found.append(f"create table {name} ({key}, n_ bigint not null default 0, {columns})")
    return found


def value_of(chance: random.Random, type_: str) -> str:
    """Return a value for a column as the server says its type."""
    if chance.random() < 0.12:
        return "null"
    for kind in (type_, type_.partition("(")[0], type_.partition("(")[0].removesuffix(" unsigned")):
        for known, values in VALUES.items():
            if known.removesuffix(" null") == kind or known.partition("(")[0].removesuffix(" null") == kind:
                return chance.choice(values)
    return chance.choice(TEXTS)


def row_statement(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Return statements that write rows."""
    found = own(tables)
    if not found:
        return beginnings(chance)[:1]
    table = chance.choice(found)
    name = quoted(table.name)
    columns = [each for each in table.columns if each != "n_"]
    way = chance.randrange(10)
    if way < 5 or not columns:
        rows = chance.choice([1, 1, 2, 20])
        made = [
            "("
            + ", ".join(
                [
                    "{n}",
                    *(
                        str(chance.randrange(60)) if each in ("id", *table.key) else value_of(chance, table.types[each])
                        for each in columns
                    ),
                ]
            )
            + ")"
            for _ in range(rows)
        ]
        word = chance.choice(["insert ignore", "insert ignore", "replace"])
        return [f"{word} into {name} ({', '.join(['n_', *map(quoted, columns)])}) values {', '.join(made)}"]
    some = f"where id % {chance.choice([1, 2, 3, 5])} = 0"
    if way < 8:
        column = chance.choice(columns)
        value = value_of(chance, table.types[column])
        changed = "id = id + 100" if column == "id" else f"{quoted(column)} = {value}"
        return [f"update ignore {name} set n_ = {{n}}, {changed} {some} order by id desc"]
    return [f"delete from {name} {some} limit 3"]


def touch(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Return statements that write every row of a table once more."""
    return [f"update {quoted(each.name)} set n_ = {{n}}" for each in own(tables)]


def _part(chance: random.Random, table: Table) -> str:
    columns = _changeable(table)
    column = quoted(chance.choice(columns)) if columns else "`a`"
    new, kind = quoted(_new(chance, table)), _type(chance)
    place = chance.choice(["", "", " first", f" after {column}", " after id"])
    return chance.choice(
        [
            f"add {chance.choice(['', 'column '])}{new} {kind}{place}",
            f"add if not exists {new} {kind}{place}",
            f"add ({new} {kind}, z{chance.randrange(99)} int)",
            f"drop {chance.choice(['', 'column ', 'if exists '])}{column}",
            f"change {column} {new} {kind}{place}",
            f"modify {column} {kind}{place}",
            f"rename column {column} to {new}",
            f"alter {column} set default null",
            f"alter column {column} drop default",
            "add index (n_)",
            "comment 'it''s, a (comment'",
            "engine = InnoDB",
            "force",
        ]
    )


def alter_parts(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """ALTER of several parts, of every form."""
    table = chance.choice(own(tables) or list(tables))
    parts = [_part(chance, table) for _ in range(chance.choice([1, 1, 2, 2, 3, 4]))]
    how = chance.choice(["", "", "ignore ", "online "])
    tail = chance.choice(["", "", ", algorithm=copy", ", lock=none"])
    return [f"alter {how}table {chance.choice(['', '{db}.'])}{quoted(table.name)} {', '.join(parts)}{tail}"]


def swaps(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Names that are swapped and rotated, and parts that name each other."""
    table = chance.choice(own(tables) or list(tables))
    columns = _changeable(table)
    if len(columns) < 2:
        return alter_parts(chance, tables)
    name = quoted(table.name)
    some = chance.sample(columns, min(len(columns), chance.choice([2, 2, 3])))
    turned = list(zip(some, [*some[1:], some[0]], strict=True))
    new = quoted(_new(chance, table))
    one = quoted(some[0])
    kind = table.types[some[0]]
    key = ", ".join(map(quoted, table.key)) or "id"
    return [
        chance.choice(
            [
                f"alter table {name} " + ", ".join(f"rename column {quoted(a)} to {quoted(b)}" for a, b in turned),
                f"alter table {name} "
                + ", ".join(f"change {quoted(a)} {quoted(b)} {table.types[a]}" for a, b in turned),
                f"alter table {name} add zz int after {new}, change {one} {new} {kind}",
                f"alter table {name} change {one} {new} {kind}, add {one} int",
                f"alter table {name} drop {one}, add {one} varchar(40) first",
                f"alter table {name} add primary key ({key}), drop primary key",
                f"alter table {name} drop primary key, add primary key (id)",
                f"alter table {name} modify {one} {kind} after {quoted(some[1])}, modify {quoted(some[1])} {table.types[some[1]]} first",  # noqa: E501
            ]
        )
    ]


def set_statement(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """A statement behind SET STATEMENT … FOR."""
    made = chance.choice([alter_parts, swaps, renames, renames, charsets, truncate])(chance, tables)
    setting = chance.choice(
        ["max_statement_time=60", "lock_wait_timeout=1", "sql_mode=''", "sort_buffer_size=100000, max_statement_time=9"]
    )
    return [
        f"set statement {setting} for {each}" if not each.startswith(("insert", "update", "set")) else each
        for each in made
    ]


def truncate(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """TRUNCATE, and a table that is dropped and made again."""
    table = chance.choice(own(tables) or list(tables))
    again = f"create or replace table {quoted(table.name)} (id int primary key, n_ bigint not null default 0, c text, b int)"
    return [chance.choice([f"truncate {chance.choice(['', 'table '])}{quoted(table.name)}", again])]


def renames(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Tables' names: swapped, moved away, of views and of what is not there."""
    some = own(tables)
    if len(some) < 2:
        return beginnings(chance)[-1:]
    one, two = (quoted(each.name) for each in chance.sample(some, 2))
    return [
        *chance.choice(
            [
                [f"rename table {one} to tmp_, {two} to {one}, tmp_ to {two}"],
                [f"rename table {one} to w{chance.randrange(9)}"],
                [f"alter table {one} rename to w{chance.randrange(9)}"],
                [f"alter table {one} rename w{chance.randrange(9)}, add zz int"],
                [f"create or replace table {two} like {one}"],
                [
                    f"drop table if exists missing_, {two}",
                    f"create table {two} (n_ bigint, id int primary key, zz text)",
                ],
            ]
        )
    ]


def objects(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Views, sequences, and what is missing, here and in a database that is not captured."""
    where = chance.choice(["", "", "{db}x."])
    k = chance.randrange(1000)
    return chance.choice(
        [
            [
                f"create view {where}v{k} as select 1 a",
                f"rename table {where}v{k} to {where}w{k}",
                f"drop view {where}w{k}",
            ],
            [
                f"create sequence {where}q{k}",
                f"select nextval({where}q{k})",
                f"rename table {where}q{k} to {where}r{k}",
            ],
            [f"create sequence {where}q{k}", f"alter sequence {where}q{k} increment 5", f"drop sequence {where}q{k}"],
            [f"rename table if exists {where}none{k} to {where}n{k}"],
            [f"drop table if exists {where}none{k}"],
            [f"alter table if exists {where}none{k} add x int"],
            ["create or replace procedure p() select 1", "drop procedure p"],
            ["create or replace trigger g before insert on t for each row set @x = 1", "drop trigger if exists g"],
        ]
    )


def dialects(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Forms of the grammar that are seldom written, here and in a database that is not captured."""
    table = chance.choice(own(tables) or list(tables))
    columns = _changeable(table) or ["id"]
    name, one = table.name, chance.choice(columns)
    kind = table.types[one]
    k = chance.randrange(1000)
    there = chance.choice(["", "{db}x."])
    return chance.choice(
        [
            [f"alter table `{name}` modify `{name}`.`{one}` {kind}"],
            ["set sql_mode = 'ANSI_QUOTES'", f'alter table "{name}" change "{one}" "q{k}" {kind}', "set sql_mode = ''"],
            [f"create table {there}d{k} (id int primary key, n_ bigint, a text character set default)"],
            [f"create table {there}d{k} (id int primary key, n_ bigint, a varchar(9) character set binary)"],
            [f"create table {there}d{k} (id int primary key, n_ bigint, a varchar(9) unicode)"],
            [f"create table {there}d{k} (id int primary key, n_ bigint, a varchar(9) byte, b char(3) ascii)"],
            [f"create table {there}d{k} (id int primary key, n_ bigint, a varchar(9) collate uca1400_ai_ci)"],
            [f"create table {there}d{k} (id int primary key, n_ bigint, a varchar(9)) collate uca1400_as_cs"],
            [f"create table {there}d{k} (id int primary key, n_ bigint, a national varchar(9), b long varchar)"],
            [f"create table {there}d{k} (id serial primary key, n_ bigint, b int1, c middleint, d fixed(9,3), e dec)"],
            [f"/*!50000 create table {there}d{k} (id int primary key, n_ bigint /*!, a int */) */"],
            [
                f"create table {there}d{k} (id int check (id > -1) primary key, n_ bigint, a int as (id + 1) virtual, b int as (id) stored)"  # noqa: E501
            ],
            [f"create table {there}d{k} (id int, n_ bigint, a int invisible default 3, primary key (id) using btree)"],
            [f"create table {there}d{k} as select 1 id, 2 n_, 'x' a", f"alter table {there}d{k} add primary key (id)"],
            [
                f"create table {there}d{k} (id int primary key, n_ bigint) engine=myisam",
                f"alter table {there}d{k} engine=aria",
            ],
            [
                f"create table {there}d{k} (id int primary key, n_ bigint) partition by hash(id) partitions 3",
                f"alter table {there}d{k} add partition partitions 1",
                f"alter table {there}d{k} truncate partition p0",
            ],
        ]
    )


def charsets(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Character sets of tables and columns that change."""
    table = chance.choice(own(tables) or list(tables))
    one = quoted(chance.choice(_changeable(table) or ["id"]))
    charset, name = chance.choice(CHARSETS), quoted(table.name)
    return [
        chance.choice(
            [
                f"alter table {name} convert to character set {charset}",
                f"alter table {name} default charset = {charset}, add zc varchar(20)",
                f"alter table {name} modify {one} varchar(50) character set {charset}",
                f"alter table {name} modify {one} enum('é', 'ß', 'x') charset {charset}",
                f"alter database {{db}} character set {charset}",
            ]
        )
    ]


def codecs(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Every byte of a character set that the server takes."""
    charset = chance.choice(HARD_CHARSETS)
    name = f"k_{charset}"
    found = [f"create table if not exists {name} (id int primary key, n_ bigint, a varchar(9) character set {charset})"]
    lead = chance.randrange(0x81, 0xFF)
    values = [f"({k}, {{n}}, 0x{lead + k if lead + k < 256 else 255:02x})" for k in range(8)]
    values += [
        f"({k + 10}, {{n}}, 0x{chance.randrange(0x81, 0xFF):02x}{chance.randrange(0x40, 0xFF):02x})" for k in range(16)
    ]
    return [*found, *(f"replace into {name} values {each}" for each in values)]


def images(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """A session that sends less of its rows, or statements in their place."""
    setting = chance.choice(
        [
            "binlog_row_image = MINIMAL",
            "binlog_row_image = NOBLOB",
            "binlog_row_image = FULL",
            "binlog_format = STATEMENT",
            "binlog_format = MIXED",
            "binlog_format = ROW",
        ]
    )
    return [f"set session {setting}", *row_statement(chance, tables), *row_statement(chance, tables)]


def sessions(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """A session with settings of its own."""
    return [
        "set "
        + chance.choice(
            [
                "time_zone = '+13:00'",
                "character_set_client = latin1, character_set_connection = latin1",
                "sql_mode = 'ANSI_QUOTES'",
                "sql_mode = 'NO_BACKSLASH_ESCAPES'",
                "sql_mode = 'ORACLE'",
                "sql_mode = ''",
                "explicit_defaults_for_timestamp = 0",
                "character_set_server = 'latin2', collation_connection = 'cp1250_general_ci'",
                "autocommit = 0",
                "autocommit = 1",
                "check_constraint_checks = 0, foreign_key_checks = 0",
                "timestamp = 86400",
                "sql_log_bin = 1",
            ]
        ),
        *row_statement(chance, tables),
    ]


def versions(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """System-versioned tables, and periods."""
    k = chance.randrange(100)
    table = quoted(chance.choice(own(tables) or list(tables)).name)
    return chance.choice(
        [
            [f"alter table {table} add system versioning"],
            [f"alter table {table} drop system versioning"],
            [
                f"create or replace table y{k} (id int primary key, n_ bigint, a text) with system versioning",
                f"insert into y{k} values (1, {{n}}, 'x'), (2, {{n}}, 'y')",
                f"update y{k} set n_ = {{n}}, a = 'z'",
                f"delete from y{k} where id = 2",
            ],
            [
                f"create or replace table y{k} (id int primary key, n_ bigint, s date, e date, period for p (s, e))",
                f"replace into y{k} values (1, {{n}}, '2020-01-01', '2021-01-01')",
            ],
        ]
    )


def compressed(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """COMPRESSED columns, here and in a database that is not captured."""
    k, there = chance.randrange(100), chance.choice(["", "{db}x."])
    return [
        f"create or replace table {there}c{k} (id int primary key, n_ bigint, a text compressed, b varbinary(900) compressed)",  # noqa: E501
        f"insert into {there}c{k} values (1, {{n}}, repeat('é', 400), 'b'), (2, {{n}}, '', null)",
        f"update {there}c{k} set n_ = {{n}}, a = 'x' where id = 1",
    ]


def transactions(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Transactions with savepoints and rollbacks."""
    some = [each for _ in range(4) for each in row_statement(chance, tables)]
    end = chance.choice(["commit", "commit", "rollback"])
    return [
        chance.choice(["begin", "start transaction"]),
        some[0],
        "savepoint s",
        *some[1:2],
        chance.choice(["rollback to s", "release savepoint s"]),
        *some[2:],
        end,
    ]


def unique_keys(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Tables without a primary key whose unique key is told, and is dropped."""
    k = chance.randrange(100)
    return [
        f"create or replace table j{k} (id int not null, n_ bigint, b varchar(9) not null, unique x (id), unique y (b))",
        f"replace into j{k} values (1, {{n}}, 'a'), (2, {{n}}, 'b')",
        chance.choice(
            [
                f"alter table j{k} drop index x",
                f"drop index y on j{k}",
                f"alter table j{k} drop index x, drop index y",
                f"alter table j{k} add primary key (b)",
            ]
        ),
        f"update j{k} set n_ = {{n}}",
    ]


THEMES: Mapping[str, Theme] = {
    each.__name__: each
    for each in (
        alter_parts,
        swaps,
        set_statement,
        truncate,
        renames,
        objects,
        dialects,
        charsets,
        codecs,
        images,
        sessions,
        versions,
        compressed,
        transactions,
        unique_keys,
    )
}
