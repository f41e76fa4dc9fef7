"""Random statements about tables: what is followed is what the server says of its tables, by seeds that stay the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.ddl import follow
from ottla.connectors.cdc.mysql.tables import SqlTable, Tables
from tests.connectors.cdc.mariadb_replay import connected
from tests.fuzz_capture import mariadb_words as words
from tests.fuzz_capture.mariadb import BEGIN, MariaDbSide
from tools.mariadb import CAPTURED, MariaDbServer, missing, private_server

pytestmark = pytest.mark.timeout(180)
HISTORIES, STATEMENTS = 12, 12
THEMES = (words.alter_parts, words.swaps, words.set_statement, words.renames, words.truncate, words.unique_keys)


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server(CAPTURED) as found:
        yield found


def shape(table: SqlTable) -> Any:
    """Names, types, keys: JSON is the server's LONGTEXT, and digits that are not said are none."""
    columns = []
    for each in table.columns:
        type_ = each.type if each.type.is_text or each.type.is_bytes else replace(each.type, width=None)
        charset = "utf8mb3" if type_.charset == "utf8" else type_.charset
        if type_.name == "JSON":
            type_, charset = replace(type_, name="LONGTEXT"), charset or "utf8mb4"
        columns.append((each.name, replace(type_, charset=charset, scale=type_.scale or 0), each.is_required))
    return columns, table.key


class Followed:
    """A database, and its tables as they are followed."""

    def __init__(self, database: str, cursor: Any) -> None:
        self.database, self.cursor = database, cursor
        self.tables, self.charsets = Tables(), {"": "utf8mb4", database: "utf8mb4"}
        self.done: list[str] = []

    def run(self, text: str) -> None:
        """Run a statement; what the server refuses is no fault."""
        text = text.replace("{db}", self.database).replace("{n}", "1")
        try:
            self.cursor.execute(text)
            self.cursor.fetchall()
        except pymysql.err.MySQLError:
            return
        self.done.append(text)
        if "alter database" in text:
            self.charsets[self.database] = text.split()[-1]
        follow(text, self.database, self.tables, self.charsets)

    def compare(self) -> None:
        """Compare each table with the server's own definition."""
        self.cursor.execute("show full tables where table_type = 'BASE TABLE'")
        names = {name for name, _ in self.cursor.fetchall()}
        assert {each.table for each in self.tables if each.schema == self.database} == names, self.done
        for name in names:
            self.cursor.execute(f"show create table `{name}`")
            [[_, definition]] = self.cursor.fetchall()
            now, id_ = Tables(), TableId(self.database, name)
            follow(definition, self.database, now, self.charsets)
            assert shape(self.tables[id_]) == shape(now[id_]), (definition, self.done)


@pytest.mark.parametrize("theme", [*THEMES, words.charsets], ids=lambda each: each.__name__)
def test_tables_are_followed_through_random_statements_to_what_the_server_has(
    server: MariaDbServer, theme: words.Theme
) -> None:
    side = MariaDbSide(server)
    for seed in range(HISTORIES):
        chance = random.Random(seed)
        database = side.new_database()
        with connected(server, database) as connection, connection.cursor() as cursor:
            for each in (*BEGIN, "drop table signals"):
                cursor.execute(each)
            followed = Followed(database, cursor)
            for each in words.beginnings(chance):
                followed.run(each)
            for _ in range(STATEMENTS):
                for each in chance.choice([theme, theme, words.alter_parts])(chance, side.tables(database)):
                    followed.run(each)
                followed.compare()
        side.let_go(database, [])
