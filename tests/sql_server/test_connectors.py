"""Connectors by SQL, against a Connect worker; and what is said where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connect.whole import WholeWorker, running_connect
from tests.server import Server
from tests.sql_server.running import SqlProcess, running_sql
from tests.waiting import until


@pytest.fixture(scope="module")
def worker(broker: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeWorker]:
    with running_connect(tmp_path_factory.mktemp("worker"), broker.bootstrap) as running:
        yield running


@pytest.fixture(scope="module")
def connected(broker: Server, worker: WholeWorker) -> Iterator[SqlProcess]:
    overrides = (f"ksql.connect.url={worker.url}", "ksql.service.id=connected_")
    with running_sql(broker.bootstrap, overrides=overrides) as found:
        yield found


def made(name: str, file: Path, more: str = "") -> str:
    return (
        f"CREATE SOURCE CONNECTOR {more} {name} WITH ('connector.class'='FileStreamSource', 'tasks.max'=1, "
        f"'file'='{file}', 'topic'='{name}', "
        "'key.converter'='org.apache.kafka.connect.storage.StringConverter', "
        "'value.converter'='org.apache.kafka.connect.storage.StringConverter');"
    )


def test_a_connector_is_made_listed_described_and_dropped(
    connected: SqlProcess, worker: WholeWorker, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("pear\nfig\n")
    (info,) = connected.ksql(made(name, file))
    assert (info["@type"], info["info"]["name"], info["info"]["type"]) == ("connector_info", name, "source")
    worker.until(name, "RUNNING", "RUNNING")
    (told,) = connected.ksql("SHOW SOURCE CONNECTORS;")
    assert told["connectors"] == [
        {
            "name": name,
            "type": "source",
            "className": "FileStreamSource",
            "state": "RUNNING (1/1 tasks RUNNING)",
        }
    ]
    assert connected.ksql("LIST SINK CONNECTORS;")[0]["connectors"] == []
    assert "FileStreamSource" in str(connected.ksql("LIST CONNECTOR PLUGINS;"))
    until(lambda: connected.ksql(f"DESCRIBE CONNECTOR {name};")[0]["topics"] == [name], "the connector's topic")
    connected.ksql(f"CREATE STREAM {name}_s (line STRING) WITH (kafka_topic='{name}', value_format='KAFKA');")
    connected.wait_rows(f"SELECT * FROM {name}_s;", [["pear"], ["fig"]])
    (told,) = connected.ksql(f"DESCRIBE CONNECTOR {name};")
    assert (told["connectorClass"], told["status"]["connector"]["state"]) == ("FileStreamSource", "RUNNING")
    assert [each["name"] for each in told["sources"]] == [f"{name}_S"]

    assert connected.refused(made(name, file))[:2] == (400, 40001)
    (warned,) = connected.ksql(made(name, file, "IF NOT EXISTS"))
    assert (warned["@type"], "already exists" in warned["message"]) == ("warning_entity", True)
    (dropped,) = connected.ksql(f"DROP CONNECTOR {name};")
    assert dropped["connectorName"] == name
    assert "not found" in connected.refused(f"DROP CONNECTOR {name};")[2]
    assert connected.ksql(f"DROP CONNECTOR IF EXISTS {name};")[0]["@type"] == "warning_entity"


def test_what_connect_refuses_is_told_in_its_words(connected: SqlProcess, name: str) -> None:
    status, code, said = connected.refused(f"CREATE SINK CONNECTOR {name} WITH ('connector.class'='No.Such');")
    assert (status, code, "No.Such" in said) == (400, 40001, True), said
    assert "not found" in connected.refused(f"DESCRIBE CONNECTOR {name};")[2].lower()


def test_without_a_worker_it_is_said_where_one_was_looked_for(broker: Server, sql: SqlProcess, name: str) -> None:
    with running_sql(broker.bootstrap, overrides=("ksql.connect.url=http://127.0.0.1:1",)) as alone:
        for text in ("LIST CONNECTORS;", f"CREATE SOURCE CONNECTOR {name} WITH ('a'='b');", f"DROP CONNECTOR {name};"):
            status, code, said = alone.refused(text)
            assert (status, code, "http://127.0.0.1:1" in said, "ksql.connect.url" in said) == (
                500,
                50000,
                True,
                True,
            ), said
