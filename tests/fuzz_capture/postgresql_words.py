"""Histories for PostgreSQL: each theme makes statements of one kind from the tables as they are."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from tests.fuzz_capture.model import Table

__all__ = ["THEMES", "beginnings", "row_statement", "settings", "touch"]

Theme = Callable[[random.Random, Sequence[Table]], list[str]]
LONG = "(select string_agg(md5(i::text || '{n}'), '') from generate_series(1, 400) i)"
"""A text that no compression makes short: it is kept outside of its row."""
KEY = "(select string_agg(md5(i::text), '') from generate_series(1, 70) i)"
"""As long as a key may be, and longer than what stays in a row."""
TEXTS = ("''", "'a'", "'é'", "'  x '", "'NULL'", "'\\N'", "E'a\\tb\\nc\\\\'", "'\"q\",''x'''", "'😀'", LONG)
VALUES: Mapping[str, Sequence[str]] = {
    "smallint": ("-32768", "32767"),
    "integer": ("-2147483648", "2147483647"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "numeric": ("1e500", "0.000", "-1.50", "1e-200", "12345678901234567890123456789012345678901234567890.5"),
    "numeric(30,4)": ("12345678901234567890123456.7891", "-1"),
    "numeric(10,2)": ("-0.01", "12345678.90"),
    "real": ("1.1", "'NaN'", "'-Infinity'", "16777217", "'-0'"),
    "double precision": ("0.1", "'NaN'", "'Infinity'", "1e308"),
    "money": ("1234.56", "-0.01"),
    "boolean": ("true", "false"),
    "text": TEXTS,
    "character varying(20)": TEXTS[:7],
    "character(5)": ("'a'", "'  b'", "'é'"),
    "bytea": ("''", "'\\x00ff5c'", f"{LONG}::bytea"),
    "date": ("'0001-01-01 BC'", "'9999-12-31'", "'12345-06-07'", "'1969-12-31'"),
    "timestamp without time zone": (
        "'infinity'",
        "'-infinity'",
        "'4713-01-01 00:00:00 BC'",
        "'1969-12-31 23:59:59.999999'",
        "'200000-01-01'",
    ),
    "timestamp(3) without time zone": ("'2024-02-29 12:00:00.123'",),
    "timestamp with time zone": (
        "'infinity'",
        "'2024-02-29 12:00:00.5+13:45'",
        "'12345-01-01 00:00:00Z'",
        "'0044-03-15 00:00:00Z BC'",
    ),
    "time without time zone": ("'24:00:00'", "'23:59:59.999999'"),
    "time with time zone": ("'12:00:00+05:30'", "'00:00:00-12'"),
    "interval": ("'1 year -2 months 3 days -04:05:06.7'", "'-178000000 years'", "'0'", "'1.5 seconds'"),
    "uuid": ("'123e4567-e89b-12d3-a456-426614174000'",),
    "json": ("'{\"a\":  [1, null]}'", "'\"\\u0041\"'"),
    "jsonb": ('\'{"b": 1e400, "a": [1, null]}\'', "'null'"),
    "inet": ("'::1'", "'10.0.0.0/8'", "'::1.2.3.4'"),
    "cidr": ("'10.0.0.0/8'",),
    "macaddr": ("'08:00:2b:01:02:03'",),
    "bit(9)": ("B'100000001'", "B'000000000'"),
    "int4range": ("'[1,5)'", "'empty'", "'(,)'"),
    "text[]": ("'{}'", "array['a', null, '', 'NULL']", "array['{', '\"', '\\', ',']"),
    "integer[]": ("'{}'", "'{1,null,-2147483648}'", "'{}'"),
    "boolean[]": ("'{t,f,null}'",),
    "mood": ("'a b'", "'é'"),
    "point": ("'(1.5,-2)'", "'(1e10,0)'"),
    "xml": ("'<a>é</a>'",),
    "box": ("'(2,2),(1,1)'",),
    "tsvector": ("'a:1 b:2'",),
}
EDGES: Mapping[str, tuple[str, Sequence[str]]] = {
    "not_numbers": ("numeric", ("'NaN'", "'Infinity'", "1.5")),
    "many_digits": ("numeric(78,0)", ("340282366920938463463374607431768211455", "-1", "1e77")),
    "marks": ("text", ("U&'\\FEFF'", "U&'\\FEFFbom'", "'x'")),
    "white_space": (
        "text[]",
        ("array[U&'\\3000x\\00a0', U&'\\2003']", "array[chr(28) || 'a', chr(160)]", "array[E' \\t']"),
    ),
    "boxes": ("box[]", ("'{(2,2),(1,1);(4,4),(3,3)}'", "'{}'")),
    "far_times": ("timestamp", ("'294276-12-31 23:59:59.999999'", "'infinity'", "'2020-01-01'")),
    "far_dates": ("date", ("'5874897-12-31'", "'infinity'", "'-infinity'")),
    "empty_bits": ("bit varying(9)", ("B''", "B'101'")),
}
"""Types and values at which captures have failed: each is a theme of its own, so that one does not hide the others."""
NAMES = ("a", "b", "c", "d", "e", "f g", "ü", "select", "A1")


def settings(chance: random.Random) -> dict[str, str]:
    """Return the settings that a history's captures have beside the usual ones."""
    return {
        "max.batch.size": chance.choice(["2048", "7"]),
        "decimal.handling.mode": chance.choice(["string", "precise"]),
    }


def quoted(name: str) -> str:
    """Return a name in a statement."""
    return '"' + name.replace('"', '""') + '"'


def own(tables: Sequence[Table]) -> list[Table]:
    """Those that the generator has made."""
    return [each for each in tables if each.name not in ("ends_", "signals")]


def _new(chance: random.Random, table: Table) -> str:
    return chance.choice([each for each in NAMES if each not in table.columns] or [f"z{chance.randrange(1000)}"])


def _changeable(table: Table) -> list[str]:
    return [each for each in table.columns if each not in ("n_", *table.key)]


def _created(chance: random.Random, name: str) -> list[str]:
    types = chance.sample(list(VALUES), chance.randint(3, 7))
    columns = ", ".join(f"{quoted(each)} {kind}" for each, kind in zip(NAMES, types, strict=False))
    key = chance.choice(["integer primary key", "integer primary key", "integer"])
    return [
        f"create table {name} (id {key}, n_ bigint not null default 0, {columns})",
        *([] if key != "integer" else [f"alter table {name} replica identity full"]),
    ]


def beginnings(chance: random.Random) -> list[str]:
    """Return what makes the first tables and rows."""
    names = ("t", "u", "v")[: chance.randint(2, 3)]
    return ["create type mood as enum ('a b', 'é')", *(each for name in names for each in _created(chance, name))]


def value_of(chance: random.Random, type_: str, *, null: bool = True) -> str:
    """Return a value for a column as the server says its type."""
    if null and chance.random() < 0.12:
        return "null"
    found = VALUES.get(type_) or next(
        (VALUES[each] for each in VALUES if each.partition("(")[0] == type_.partition("(")[0]), TEXTS
    )
    return chance.choice(found)


def _key_value(chance: random.Random, type_: str) -> str:
    k = chance.randrange(40)
    return {"uuid": f"md5('{k}')::uuid", "text": f"'k{k}'"}.get(type_, str(k))


def row_statement(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Return statements that write rows."""
    found = own(tables)
    if not found:
        return _created(chance, "t")
    table = chance.choice(found)
    name = quoted(table.name)
    columns = [each for each in table.columns if each != "n_"]
    way = chance.randrange(10)
    if way < 6 or not columns:
        rows = chance.choice([1, 1, 2, 20])
        made = [
            "("
            + ", ".join(
                [
                    "{n}",
                    *(
                        _key_value(chance, table.types[each])
                        if each in ("id", *table.key)
                        else value_of(chance, table.types[each])
                        for each in columns
                    ),
                ]
            )
            + ")"
            for _ in range(rows)
        ]
        return [
            f"insert into {name} ({', '.join(['n_', *map(quoted, columns)])}) values {', '.join(made)} on conflict do nothing"  # noqa: E501
        ]
    some = f"where abs(hashtext(n_::text || ctid::text)) % {chance.choice([1, 2, 3])} = 0"
    if way < 9:
        column = chance.choice(columns)
        if column in ("id", *table.key):
            return [f"update {name} set n_ = {{n}} {some}"]
        return [f"update {name} set n_ = {{n}}, {quoted(column)} = {value_of(chance, table.types[column])} {some}"]
    return [f"delete from {name} where ctid in (select ctid from {name} order by n_ limit 3)"]


def touch(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Return statements that write every row of a table once more."""
    return [f"update {quoted(each.name)} set n_ = {{n}}" for each in own(tables)]


def _part(chance: random.Random, table: Table) -> str:
    column = quoted(chance.choice(_changeable(table) or ["id"]))
    new, kind = quoted(_new(chance, table)), chance.choice(list(VALUES))
    default = value_of(chance, kind)
    return chance.choice(
        [
            f"add column {new} {kind}",
            f"add {new} {kind} default {default}",
            f"add if not exists {new} {kind}",
            f"drop column {column}",
            f"drop if exists {column} cascade",
            f"alter {column} type {kind} using null",
            f"alter {column} type text using {column}::text",
            f"alter {column} set storage external",
            f"alter {column} set default null",
            f"add column {new} integer generated always as (id::text::integer) stored",
            "set (fillfactor = 50)",
            "replica identity full",
        ]
    )


def alter_parts(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """ALTER of several parts."""
    table = chance.choice(own(tables) or list(tables))
    parts = [_part(chance, table) for _ in range(chance.choice([1, 1, 2, 3]))]
    return [f"alter table {quoted(table.name)} {', '.join(parts)}", *row_statement(chance, tables)]


def swaps(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Columns' and tables' names that are swapped, in one transaction or in several."""
    some = own(tables)
    table = chance.choice(some or list(tables))
    columns = _changeable(table)
    name = quoted(table.name)
    made = []
    if len(columns) > 1 and chance.random() < 0.5:
        one, two = map(quoted, chance.sample(columns, 2))
        made = [
            f"alter table {name} rename {one} to tmp_",
            f"alter table {name} rename {two} to {one}",
            f"alter table {name} rename tmp_ to {two}",
        ]
    elif len(some) > 1:
        one, two = (quoted(each.name) for each in chance.sample(some, 2))
        made = [
            f"alter table {one} rename to tmp_",
            f"alter table {two} rename to {one}",
            f"alter table tmp_ rename to {two}",
        ]
    inner = row_statement(chance, tables)
    return (
        ["begin", *made, f"update {name} set n_ = {{n}}", *inner, "commit"]
        if chance.random() < 0.5
        else [*made, *inner]
    )


def toasted(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Long values and long keys, and updates that do not send them."""
    k = chance.randrange(50)
    key = chance.choice(["id text primary key", "id integer primary key"])
    return [
        f"create table if not exists o{k} ({key}, n_ bigint, a text, b bytea, c text[])",
        f"alter table o{k} alter id set storage external",
        f"insert into o{k} values ({KEY if 'text' in key else 1}, {{n}}, {LONG}, {LONG}::bytea, array[{LONG}, ' x'])",
        f"update o{k} set n_ = {{n}}",
        *([f"update o{k} set n_ = {{n}}, a = 'short'"] if chance.random() < 0.5 else []),
    ]


def keys(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Keys of every type, read in chunks while they change."""
    k, kind = (
        chance.randrange(50),
        chance.choice(["numeric", "numeric", "text", "uuid", "numeric(10,2)", "double precision", "date"]),
    )
    value = {
        "uuid": "md5(i::text)::uuid",
        "text": "U&'\\FEFF' || i",
        "numeric": "i + 0.50",
        "double precision": "case i when 3 then 'NaN' else i * 0.1 end",
        "date": "date '2020-01-01' + i",
    }.get(kind, "i")
    return [
        f"create table if not exists p{k} (id {kind} primary key, n_ bigint, a numeric)",
        f"insert into p{k} select {value}, {{n}}, case i % 5 when 0 then 'NaN' else i end from generate_series(1, 20) i on conflict do nothing",  # noqa: E501
        f"""insert into signals values ('k{{n}}', 'execute-snapshot', '{{"data-collections": ["public.p{k}"]}}')""",
        f"update p{k} set n_ = {{n}} where id::text like '%1%'",
    ]


def hostile(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Settings of the database and of the role that change what the server writes."""
    setting = chance.choice(
        [
            "lc_monetary = 'de_DE.utf8'",
            "standard_conforming_strings = off",
            "datestyle = 'German, DMY'",
            "intervalstyle = 'sql_standard'",
            "extra_float_digits = -5",
            "bytea_output = 'escape'",
            "timezone = 'Asia/Kathmandu'",
            "search_path = ''",
            "xmloption = document",
            "quote_all_identifiers = on",
            "client_encoding = 'LATIN1'",
            "default_transaction_read_only = on",
            "row_security = off",
            "default_transaction_isolation = 'serializable'",
            "array_nulls = off",
            "backslash_quote = off",
            "transform_null_equals = on",
            "statement_timeout = '10s'",
            "idle_in_transaction_session_timeout = '100ms'",
            "enable_seqscan = off",
        ]
    )
    return [f"alter database {{db}} set {setting}", *row_statement(chance, tables)]


def sessions(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """A session with settings of its own."""
    setting = chance.choice(
        [
            "timezone = 'Asia/Kathmandu'",
            "datestyle = 'SQL, DMY'",
            "default_transaction_isolation = 'repeatable read'",
            "synchronous_commit = off",
        ]
    )
    return [f"set {setting}", *row_statement(chance, tables)]


def transactions(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Transactions with savepoints and rollbacks."""
    some = [each for _ in range(4) for each in row_statement(chance, tables)]
    end = chance.choice(["commit", "commit", "rollback"])
    return [
        "begin",
        some[0],
        "savepoint s",
        *some[1:2],
        chance.choice(["rollback to s", "release savepoint s"]),
        *some[2:],
        end,
    ]


def objects(chance: random.Random, tables: Sequence[Table]) -> list[str]:
    """Partitions, views, types, sequences, truncation, and tables that are dropped and made again."""
    k = chance.randrange(100)
    name = quoted(chance.choice(own(tables) or list(tables)).name)
    return chance.choice(
        [
            [f"create view w{k} as select 1 a", f"alter view w{k} rename to x{k}", f"drop view x{k}"],
            [f"create sequence q{k}", f"select nextval('q{k}')", f"drop sequence q{k}"],
            [
                f"create type ty{k} as enum ('x')",
                f"alter table {name} add ty{k} ty{k} default 'x'",
                f"alter type ty{k} add value 'y'",
                f"alter type ty{k} rename value 'x' to 'z'",
                f"update {name} set n_ = {{n}}",
            ],
            [
                f"create domain dm{k} as numeric(50,3)",
                f"alter table {name} add dm{k} dm{k} default 12345678901234567890123456789012345678901.5",
            ],
            [f"truncate {name}"],
            [f"drop table {name}", *_created(chance, name)],
            [f"create unlogged table l{k} (id int primary key)", f"insert into l{k} values (1)"],
            [f"create materialized view m{k} as select 1 a", f"refresh materialized view m{k}"],
            [f"create table {name}_{k} (like {name} including all)"],
        ]
    )


def _edge(name: str) -> Theme:
    def edge(chance: random.Random, tables: Sequence[Table]) -> list[str]:
        kind, known = EDGES[name]
        values = chance.sample(known, chance.randint(1, len(known)))  # one that columns refuse has all be made by rows
        rows = [f"({k}, {{n}}, {chance.choice(values)})" for k in range(chance.choice([1, 3, 20]))]
        columns = ["id integer primary key", "n_ bigint not null"]
        columns.insert(chance.choice([0, 2]), f"a {kind}")
        return [
            f"create table if not exists x_{name} ({', '.join(columns)})",
            f"insert into x_{name} (id, n_, a) values {', '.join(rows)} on conflict (id) do update set n_ = {{n}}, a = excluded.a",  # noqa: E501
        ]

    return edge


THEMES: Mapping[str, Theme] = {
    **{name: _edge(name) for name in EDGES},
    **{each.__name__: each for each in (alter_parts, swaps, toasted, keys, hostile, sessions, transactions, objects)},
}
