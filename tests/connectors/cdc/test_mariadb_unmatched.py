"""MariaDB: entries of include lists that match no table are told in the status, until a table of them changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.cdc.mariadb_replay import begun, read, run_sql
from tests.connectors.contexts import Store
from tools.mariadb import missing, private_server


@pytest.mark.timeout(180)
def test_a_capture_names_entries_that_match_nothing_until_the_table_is_made(tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with private_server() as server:
        run_sql(
            server,
            "create database shop; create table shop.there (id int primary key); insert into shop.there values (1)",
        )
        listed = {
            "topic.prefix": "un",
            "table.include.list": "shop.there,shop.late",
            "database.include.list": "shop,gone",
        }
        task = begun(server, tmp_path / "history", store := Store(), **listed)
        read(task, 1, store)
        late, gone = task.source_state().warnings
        assert "'shop.late'" in late and "no database with tables matches 'gone'" in gone
        run_sql(server, "create table shop.late (id int primary key); insert into shop.late values (1)")
        read(task, 1, store)
        assert task.source_state().warnings == [gone]
        task.stop()
