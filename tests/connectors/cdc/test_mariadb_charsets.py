"""Texts of all character sets, and addresses, against a real MariaDB byte for byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.connectors.cdc.mysql.charsets import MULTI_BYTE, decoder_of
from ottla.connectors.cdc.mysql.rows import STRING, RowFormat, WireColumn
from ottla.connectors.cdc.mysql.tables import SqlType
from tests.connectors.cdc.mariadb_replay import connected
from tools.ask_charsets import THREE_BYTES, characters, single_byte_sets
from tools.mariadb import missing, private_server

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def cursor() -> Iterator[Any]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as server, connected(server) as connection, connection.cursor() as found:
        found.execute("create database charsets")
        found.execute("use charsets")
        found.execute("set sql_mode = ''")
        yield found


def test_each_byte_of_each_character_set_is_told_as_the_server_tells_it(cursor: Any) -> None:
    for charset in single_byte_sets(cursor):
        found = characters(cursor, charset, 1)
        assert {key: decoder_of(charset)(key) for key in found} == found, charset


@pytest.mark.parametrize("charset", MULTI_BYTE)
def test_each_character_of_several_bytes_is_told_as_the_server_tells_it(cursor: Any, charset: str) -> None:
    found = {**characters(cursor, charset, 1), **characters(cursor, charset, 2)}
    if charset in THREE_BYTES:
        found |= characters(cursor, charset, 3)
    decode = decoder_of(charset)
    assert {key: decode(key) for key in found} == found
    keys = list(found)
    random.Random(7).shuffle(keys)
    assert decode(b"".join(keys)) == "".join(found[key] for key in keys)


def test_halves_of_characters_are_told_as_a_query_tells_them(cursor: Any) -> None:
    for charset, data in (
        *(("utf8mb3", "eda080"), ("utf8mb4", "eda080edb080"), ("ucs2", "d800"), ("ucs2", "d83dde000041")),
        *(("utf32", "0000d800"), ("utf16", "d83dde00"), ("utf16le", "3dd800de"), ("ucs2", "ffff")),
    ):
        cursor.execute(f"create or replace table t (v varchar(9) character set {charset})")
        cursor.execute(f"insert into t values (x'{data}')")
        cursor.execute("select hex(convert(v using utf8mb4)) from t")
        [[told]] = cursor.fetchall()
        assert decoder_of(charset)(bytes.fromhex(data)) == bytes.fromhex(told).decode("utf-8", "replace"), charset


def test_addresses_are_told_as_the_server_prints_them(cursor: Any) -> None:
    chance = random.Random(3)
    cursor.execute("create or replace table t (v inet6)")
    words = (0, 0, 0, 1, 0xFFFF, 0x102, 0xABCD)
    values = {bytes(12) + bytes([1, 2, 3, 4]), bytes(15) + b"\1", bytes(16)}
    values |= {b"".join(chance.choice(words).to_bytes(2, "big") for _ in range(8)) for _ in range(500)}
    cursor.executemany("insert into t values (cast(x%s as inet6))", [(each.hex(),) for each in values])
    cursor.execute("select hex(v), v from t")
    reader = RowFormat([SqlType("INET6")], [WireColumn(STRING, 16)])
    told = {key: next(iter(reader.rows(b"\1\0\x10" + bytes.fromhex(key), is_update=False)))[1][0] for key, _ in cursor}
    cursor.execute("select hex(v), v from t")
    assert told == dict(cursor.fetchall())
