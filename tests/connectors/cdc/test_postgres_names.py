"""Names that have no form in UTF-8, of tables, columns, types and all else: they end no capture."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect import SourceRecord
from ottla.connectors.cdc import capture_task
from tests.connectors.cdc.replay import connected, read_until_quiet, run_sql
from tests.connectors.cdc.test_postgres_refused import told
from tests.connectors.cdc.test_signals import SIGNALS, begun_with_signals, signal
from tests.connectors.contexts import Store, polled
from tests.waiting import until
from tools.postgres import PostgresServer

pytestmark = pytest.mark.timeout(180)
N = "create table n (id int primary key"
Y = "insert into n values ({}, 'y')"
NAMES = {
    "table": ('create table "n?" (id int primary key)', 'insert into "n?" values ({})', r"public.n\x{}"),
    "schema": (
        'create schema "s?"; create table "s?".n (id int primary key)',
        'insert into "s?".n values ({})',
        r"s\x{}.n",
    ),
    "column": (f'{N}, "c?" int)', "insert into n values ({}, 1)", "public.n"),
    "label": (f"create type e as enum ('y', 'l?'); {N}, v e)", Y, ""),
    "type": (f'create type "y?" as enum (\'y\'); {N}, v "y?")', Y, ""),
    "default": (f"{N}, v text default 'd?')", Y, ""),
    "path": (f'{N}); alter database "%" set search_path = "p?", public', "insert into n values ({})", ""),
}
"""What is made, a row, and the table that is refused; where none is, its rows are told."""


@pytest.mark.parametrize(("encoding", "bad"), [("SQL_ASCII", b"\xe9"), ("EUC_JP", b"\xfe\xfe")])
@pytest.mark.parametrize("what", [*NAMES])
@pytest.mark.parametrize("mode", ["initial", "no_data"])
def test_a_name_without_a_form_in_utf_8_ends_nothing_and_what_cannot_be_told_is_refused_by_name(
    server: PostgresServer, encoding: str, bad: bytes, what: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_task, "RETRY_SECONDS", 0.0)
    database, store = f"names_{encoding}_{what}_{mode}".lower(), Store()
    run_sql(server, "postgres", f"create database {database} encoding '{encoding}' locale 'C' template template0")
    made, row, refused = NAMES[what]

    def bytes_of(text: str) -> bytes:
        return text.replace("%", database).encode().replace(b"?", bad)

    with connected(server, database) as connection:
        connection.execute(f"set client_encoding = '{encoding}'".encode())
        connection.execute(f"{SIGNALS}; create table a (id int primary key); insert into a values (1)".encode())
        if mode == "initial":
            connection.execute(bytes_of(made))
            connection.execute(bytes_of(row.format(1)))
        task = begun_with_signals(server, database, store, **{"snapshot.mode": mode, "slot.retry.delay.ms": "100"})
        found = read_until_quiet(task, store, 0.2)
        if mode == "no_data":  # the stream is the first to meet it
            connection.execute(bytes_of(made))
            connection.execute(bytes_of(row.format(1)))
        connection.execute(bytes_of(row.format(2)))
        connection.execute(b"insert into a values (2)")
        until(lambda: found.extend(_stored(task, store)) or ("c", 2) in told(found, "a"), "the stream", every=0)
    signal(server, database, "execute-snapshot", data_collections=["public.n", "public.a"])
    until(lambda: found.extend(_stored(task, store)) or ("r", 2) in told(found, "a"), "the chunk", every=0)
    warned = [each.partition(" is refused")[0] for each in task.source_state().warnings]
    task.stop()
    digits = "".join(f"{each:02x}" if at == 0 else rf"\x{each:02x}" for at, each in enumerate(bad))
    assert warned == ([f"table {refused.format(digits)}"] if refused else [])
    if not refused:
        first = ("r", 1) if mode == "initial" else ("c", 1)
        assert told(found, "n")[:2] == [first, ("c", 2)]
    else:
        assert not [each for each in found if each.topic and "n" in each.topic.rpartition(".")[2][:1]]
    task = begun_with_signals(server, database, store, **{"snapshot.mode": mode, "slot.retry.delay.ms": "100"})
    run_sql(server, database, "insert into a values (3)")
    until(lambda: ("c", 3) in told(_stored(task, store), "a"), "what comes behind a restart", every=0)
    task.stop()


def _stored(task: Any, store: Store) -> list[SourceRecord]:
    found = polled(task)
    store.take(found)
    task.commit()
    return found
