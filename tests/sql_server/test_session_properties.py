"""What a request may set: every key that there is, by every way in, changes nothing but what the list names."""

from __future__ import annotations

import itertools
import json
import logging
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base import TopicPartition
from ottla.client import BlockingClient, batch_of
from ottla.config import CONSUMER_KEYS, PRODUCER_KEYS, STREAMS_KEYS
from ottla.sql import SqlError, parse_statement, substituted
from ottla.sql.commands import BeginQuery, Command, PersistentQuery, ServerState, apply, decide
from ottla.sql_server.hosts import application_settings
from ottla.sql_server.session_properties import (
    STREAMS_PROPERTIES,
    allowed,
    check_properties,
    check_property,
    is_allowed,
    put,
    refusal_of,
)
from ottla.sql_server.settings import server_settings
from ottla.streams.setting_meanings import OWN_KEYS
from tests.ports import free_port
from tests.server import Server
from tests.sql_server.running import SqlProcess, running_sql
from tests.waiting import until

STREAM = "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='t', value_format='JSON', partitions=1);"
RESULT = "CREATE STREAM x AS SELECT * FROM s EMIT CHANGES;"
CLIENTS = ("", "consumer.", "main.consumer.", "restore.consumer.", "global.consumer.", "producer.", "admin.", "topic.")
SERVER = (
    *("bootstrap.servers", "listeners", "ksql.service.id", "ksql.connect.url", "ksql.schema.registry.url"),
    *(
        "ksql.schema.registry.basic.auth.user.info",
        "ksql.queries.file",
        "ksql.extension.dir",
        "ksql.advertised.listener",
    ),
    *("ksql.create.or.replace.enabled", "ksql.pull.queries.enable", "ksql.query.persistent.active.limit"),
    *("ksql.internal.topic.replicas", "ksql.logging.processing.topic.name", "ottla.sql.engine"),
    *("ottla.sql.spark.master", "ottla.sql.request.bytes.max", "authentication.method", "spark.master", "spark.jars"),
    *("config.providers", "config.providers.env.class", "java.security.auth.login.config", "ssl.keystore.location"),
    *("", " ", "ksql.streams.", "ksql.functions.X.limit", "auto.offset.reset ", "KSQL.STREAMS.STATE.DIR"),
)
KEYS = sorted(
    {
        f"{before}{client}{name}"
        for before in ("", "ksql.streams.")
        for client in CLIENTS
        for name in (*STREAMS_KEYS, *CONSUMER_KEYS, *PRODUCER_KEYS, *OWN_KEYS, "http.listener.ssl.keystore.location")
    }
    | set(SERVER)
)
LISTED = {f"{before}{name}" for before in ("", "ksql.streams.") for name in (*STREAMS_PROPERTIES, "num.stream.threads")}
VALUES = ("${file:/etc/passwd:root}", "${dir:/etc:hostname}", "${env:PATH}", "x:1", "true", "1", "earliest")
GIVEN = {"bootstrap.servers": "operator:9092", "ksql.streams.state.dir": "/operator"}


def made(properties: dict[str, str], state: ServerState | None = None) -> PersistentQuery:
    """The query of a command that was written with some properties, whoever let it."""
    found = state or ServerState()
    for text, given in ((STREAM, {}), (RESULT, properties)):
        decision = decide(parse_statement(text), text, found, properties=given, settings={}, number=0)
        assert decision.command is not None
        applied = apply(found, Command.read(decision.command.key(), decision.command.value()))
        found = applied.state
    [begun] = [each for each in applied.effects if isinstance(each, BeginQuery)]
    return begun.query


def test_no_key_but_the_listed_ones_may_be_set() -> None:
    assert {name for name in KEYS if is_allowed(name)} == LISTED
    assert len(KEYS) > 2000
    for name in set(KEYS) - LISTED:
        refusal = refusal_of(name)
        assert refusal is not None and f"{name}" in refusal, name
        with pytest.raises(SqlError, match=r"prohibited|recognizable"):
            check_properties({name: "x"})
        with pytest.raises(SqlError, match=r"prohibited|recognizable"):
            put({}, name, "x")


def test_no_value_of_a_listed_key_is_anything_but_of_its_type() -> None:
    for name, value in itertools.product(
        sorted(LISTED - {"num.stream.threads", "ksql.streams.num.stream.threads"}), VALUES[:4]
    ):
        with pytest.raises(SqlError, match="Invalid value"):
            check_property(name, value)


def test_a_stored_command_with_forbidden_keys_begins_without_them(caplog: pytest.LogCaptureFixture) -> None:
    """A command topic holds what an earlier version took."""
    settings = server_settings(GIVEN, {})
    plain = application_settings(settings, made({}))
    forbidden = dict.fromkeys(set(KEYS) - LISTED, "${file:/etc/passwd:root}")
    with caplog.at_level(logging.WARNING):
        assert application_settings(settings, made(forbidden)) == plain
    assert "ksql.streams.bootstrap.servers" in caplog.text and "CSAS_X_0" in caplog.text
    wrong = dict.fromkeys(LISTED, "${env:PATH}")
    assert application_settings(settings, made(wrong)) == plain
    system = ServerState().with_system("ksql.streams.bootstrap.servers", "x:1")
    assert application_settings(settings, made({}, system)) == plain


def test_listed_keys_take_effect_with_and_without_the_prefix() -> None:
    values = {
        "auto.offset.reset": "earliest",
        "cache.max.bytes.buffering": "0",
        "commit.interval.ms": "7",
        "processing.guarantee": "exactly_once_v2",
        "statestore.cache.max.bytes": "0",
    }
    assert values.keys() == set(STREAMS_PROPERTIES)
    settings = server_settings(GIVEN, {})
    for name, value in values.items():
        for full in (name, f"ksql.streams.{name}"):
            assert application_settings(settings, made({full: value}))[name] == value, full
            system = ServerState().with_system(full, value)
            assert application_settings(settings, made({}, system))[name] == value, full
            own = server_settings({**GIVEN, full: value}, {})
            assert application_settings(own, made({}))[name] == value, full
            assert not any(full in each for each in own.warnings)
    session: dict[str, str] = {}
    put(session, "auto.offset.reset", "latest")
    put(session, "ksql.streams.auto.offset.reset", "EARLIEST")
    assert session == {"ksql.streams.auto.offset.reset": "EARLIEST"}
    assert application_settings(settings, made(session))["auto.offset.reset"] == "earliest"


@pytest.fixture(scope="module")
def stranger() -> Iterator[tuple[str, list[Any]]]:
    """Somebody's broker, and who has connected to it."""
    connected: list[Any] = []
    with socket.create_server(("127.0.0.1", free_port())) as listener:

        def accept() -> None:
            while True:
                try:
                    peer, address = listener.accept()
                except OSError:
                    return
                connected.append(address)
                peer.close()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", connected
        listener.shutdown(socket.SHUT_RDWR)


def test_every_door_refuses_by_name_and_nothing_is_looked_up_or_reached(
    sql: SqlProcess, name: str, stranger: tuple[str, list[Any]]
) -> None:
    """As a request's property, in SET, in ALTER SYSTEM, in the address of a socket, and asked beforehand."""
    address, connected = stranger
    sql.ksql(f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);")
    result = f"CREATE STREAM {name}_x AS SELECT * FROM {name} EMIT CHANGES;"
    push = f"SELECT * FROM {name} EMIT CHANGES LIMIT 1;"
    hostile = {
        "ksql.streams.bootstrap.servers": address,
        "bootstrap.servers": address,
        "ksql.streams.consumer.bootstrap.servers": address,
        "ksql.streams.sasl.jaas.config": "${file:/etc/passwd:root}",
        "ksql.streams.client.id": "${env:PATH}",
        "ksql.streams.state.dir": "${dir:/etc:hostname}",
        "ksql.streams.http.listener": f"http://{address}",
        "ksql.schema.registry.url": f"http://{address}",
        "ksql.connect.url": f"http://{address}",
        "nonsense": "1",
    }
    for key, value in hostile.items():
        for path, body in (
            ("/ksql", {"ksql": result, "streamsProperties": {key: value}}),
            ("/query", {"ksql": push, "streamsProperties": {key: value}}),
            ("/query-stream", {"sql": push, "properties": {key: value}}),
        ):
            found = sql.ask("POST", path, body)
            assert (found.status, found.body["error_code"]) == (400, 40000), (path, found)
            assert key in found.body["message"]
        for path, text in (("/ksql", result), ("/query", push)):
            status, code, message = sql.refused(f"SET '{key}' = '{value}'; {text}", path)
            assert (status, code, key in message) == (400, 40001, True), message
        status, code, message = sql.refused(f"ALTER SYSTEM '{key}' = '{value}';")
        assert (status, code, key in message) == (400, 40001, True), message
        assert sql.ask("GET", f"/is_valid_property/{urllib.parse.quote(key)}").status == 400
    said = sql.said() + str(sql.ksql("LIST PROPERTIES; LIST QUERIES EXTENDED;"))
    assert "root:x:" not in said and address not in said
    assert not connected
    shown = {each["name"]: each for each in sql.ksql("SHOW PROPERTIES;")[0]["properties"]}
    assert (shown["bootstrap.servers"]["editable"], shown["auto.offset.reset"]["editable"]) == (False, True)


def test_what_has_no_effect_is_taken_and_said(sql: SqlProcess, name: str) -> None:
    text = f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);"
    [answer] = sql.ksql(text, ksql_streams_num_stream_threads="4")
    assert "no effect" in answer["warnings"][0]["message"]
    [answer] = sql.ksql("ALTER SYSTEM 'num.stream.threads'='4';")
    assert "no effect" in answer["warnings"][0]["message"]


def test_a_command_that_somebody_wrote_past_the_server_reaches_no_strangers_broker(
    broker: Server, name: str, stranger: tuple[str, list[Any]], tmp_path: Path
) -> None:
    """The command of a replay names another broker, files and variables; its query runs, by the operator's settings."""
    address, connected = stranger
    service = f"ksql.service.id={name}_"
    with running_sql(broker.bootstrap, overrides=(service,)) as first:
        for each in (name, f"{name}_X"):
            columns = f"{each} (v INT) WITH (kafka_topic='{each}', value_format='JSON', partitions=1)"
            first.ksql(f"CREATE STREAM {columns};")
        first.ksql(f"DROP STREAM {name}_X;")
    topic = f"_confluent-ksql-{name}__command_topic"
    text = f"CREATE STREAM {name}_X AS SELECT v FROM {name} EMIT CHANGES;"
    forged = {
        "statement": text,
        "streamsProperties": {
            "ksql.streams.bootstrap.servers": address,
            "ksql.streams.client.id": "${env:PATH}",
            "ksql.streams.state.dir": str(tmp_path / "state"),
            "ksql.streams.http.listener": f"http://127.0.0.1:{free_port()}",
            "auto.offset.reset": "earliest",
        },
        "originalProperties": {},
        "plan": {"queryId": f"CSAS_{name}_X_9"},
        "version": 1,
    }
    key = json.dumps(f"stream/`{name}_X`/create")
    with BlockingClient(broker.bootstrap) as client:
        client.metadata([topic])
        batch = batch_of([(key.encode(), json.dumps(forged).encode())])
        client.run(client.client.produce({TopicPartition(topic, 0): batch}))
    with running_sql(broker.bootstrap, overrides=(service,)) as again:
        again.ksql(f"INSERT INTO {name} VALUES (7);")
        assert again.rows(f"SELECT * FROM {name}_X EMIT CHANGES LIMIT 1;") == [[7]]
        told = again.ksql(f"EXPLAIN CSAS_{name}_X_9;")[0]["queryDescription"]
        assert told["overriddenProperties"] == {"auto.offset.reset": "earliest"}
        until(lambda: "begins without a property" in again.said(), "the warning")
    assert not connected and not (tmp_path / "state").exists()


def test_what_is_left_out_is_not_told_with_its_value() -> None:
    assert allowed({"ksql.streams.sasl.jaas.config": "secret", "auto.offset.reset": "latest"}, "q") == {
        "auto.offset.reset": "latest"
    }


def test_variables_make_no_statement_longer_than_any_may_be() -> None:
    """A request of some MiB would be as many times as long, before anything is parsed."""
    value = "x" * 100_000
    text = f"SELECT '{'${v}' * 100_000}' FROM s;"
    with pytest.raises(SqlError, match="longer than"):
        substituted(text, {"V": value})
    asked = substituted("SELECT '${v}' FROM s;", {"v": "${file:/etc/passwd:root}"})
    assert asked == "SELECT '${file:/etc/passwd:root}' FROM s;"


@pytest.mark.parametrize("name", ["cache.max.bytes.buffering", "ksql.streams.statestore.cache.max.bytes"])
def test_a_query_takes_no_more_memory_for_its_caches_than_is_allowed(name: str) -> None:
    check_property(name, str(128 << 20))
    with pytest.raises(SqlError, match=str(128 << 20)):
        check_property(name, str((128 << 20) + 1))
