"""kill -9 of servers: the log replayed gives the same queries, topics and results; other servers see the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server import Server, running_server
from tests.sql_server.running import running_sql, start_sql
from tests.waiting import until


def test_a_killed_servers_queries_go_on_with_their_names_and_results(broker: Server) -> None:
    service = ("ksql.service.id=killed_",)
    first = start_sql(broker.bootstrap, overrides=service)
    first.ksql(
        "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='killed', value_format='JSON', partitions=1);"
        "CREATE TABLE t AS SELECT id, SUM(v) AS total FROM s GROUP BY id;"
    )
    first.ksql("INSERT INTO s VALUES ('a', 1); INSERT INTO s VALUES ('a', 2);")
    first.wait_rows("SELECT * FROM t;", [["a", 3]])
    (before,) = first.ksql("LIST QUERIES;")
    first.kill()
    with running_sql(broker.bootstrap, overrides=service) as second:
        (after,) = second.ksql("LIST QUERIES;")
        assert [each["id"] for each in after["queries"]] == [each["id"] for each in before["queries"]]
        assert second.rows("SELECT * FROM t;") == [["a", 3]]
        second.ksql("INSERT INTO s VALUES ('a', 4);")
        second.wait_rows("SELECT * FROM t;", [["a", 7]])
        topics = second.ksql("SHOW ALL TOPICS;")[0]["topics"]
        internal = sorted(each["name"] for each in topics if each["name"].startswith("_confluent-ksql-killed_query_"))
        assert internal
        second.ksql("DROP TABLE t DELETE TOPIC;")

        def gone() -> bool:
            left = {each["name"] for each in second.ksql("SHOW ALL TOPICS;")[0]["topics"]}
            return not left & {*internal, "T"}

        until(gone, "the deletion of what a query has left")


def test_a_command_that_cannot_be_carried_out_degrades_the_server_and_stops_nobody(broker: Server) -> None:
    from ottla.base import TopicPartition
    from ottla.client import BlockingClient, NewTopic, batch_of, create_topics

    topic = "_confluent-ksql-damaged__command_topic"
    records: list[tuple[bytes | None, bytes | None]] = [
        (
            b'"stream/`S`/create"',
            b"{\"statement\":\"CREATE STREAM s (v INT) WITH (kafka_topic='dam', value_format='JSON');\"}",
        ),
        (b'"stream/`X`/create"', b'{"statement":"CREATE STREAM x AS SELECT nothing FROM s;"}'),
        (b"no command", b"at all"),
        (b'"type/A/create"', b'{"statement":"CREATE TYPE a AS INT;"}'),
    ]
    with BlockingClient(broker.bootstrap) as client:
        client.run(create_topics(client.client, [NewTopic(topic, 1, 1), NewTopic("dam", 1, 1)]))
        client.run(client.client.produce({TopicPartition(topic, 0): batch_of(records)}))
    with running_sql(broker.bootstrap, overrides=("ksql.service.id=damaged_",)) as sql:
        assert sql.ask("GET", "/info").body["KsqlServerInfo"]["serverStatus"] == "DEGRADED"
        assert sql.ask("GET", "/healthcheck").status == 503
        streams, types = sql.ksql("LIST STREAMS; LIST TYPES;")
        assert [each["name"] for each in streams["streams"]] == ["S"]
        assert list(types["types"]) == ["A"]
        assert "Command 1 of topic" in sql.said()


def test_what_a_server_of_version_0_3_took_goes_on_after_an_upgrade(broker: Server) -> None:
    """Its topic has statements that are refused now, and one that cannot be run, which was dropped."""
    from ottla.base import TopicPartition
    from ottla.client import BlockingClient, NewTopic, batch_of, create_topics

    topic, with_ = "_confluent-ksql-upgraded__command_topic", "WITH (kafka_topic='up', value_format='JSON'"
    long = "N" * 201
    taken = (
        ("stream/`ONE`/create", None, f"CREATE STREAM one (id STRING KEY, v INT) {with_}, window_type='SESSION');"),
        ("stream/`X`/create", "CSAS_X_1", "CREATE STREAM x AS SELECT nothing FROM one;"),
        ("stream/`S`/create", None, f'CREATE STREAM s (id STRING KEY, " " INT, v INT) {with_});'),
        (f"stream/`{long}`/create", None, f"CREATE STREAM {long} (id STRING KEY, v INT) {with_});"),
        ("stream/`X`/drop", None, "DROP STREAM x;"),
        ("stream/`MOVED`/create", "CSAS_MOVED_5", "CREATE STREAM moved AS SELECT * FROM one PARTITION BY v;"),
        ("stream/`OUT`/create", "CSAS_OUT_6", "CREATE STREAM out AS SELECT id, v + 1 AS w FROM s;"),
    )
    records: list[tuple[bytes | None, bytes | None]] = []
    for about, query_id, statement in taken:
        plan = None if query_id is None else {"queryId": query_id}
        value = {"statement": statement, "streamsProperties": {"auto.offset.reset": "earliest"}, "plan": plan}
        records.append((json_text(about).encode(), json_text(value).encode()))
    with BlockingClient(broker.bootstrap) as client:
        names = (topic, "up", "MOVED", "OUT")
        client.run(create_topics(client.client, [NewTopic(name, 1, 1) for name in names]))
        client.run(client.client.produce({TopicPartition(topic, 0): batch_of(records)}))
    with running_sql(broker.bootstrap, overrides=("ksql.service.id=upgraded_",)) as sql:
        assert sql.ask("GET", "/info").body["KsqlServerInfo"]["serverStatus"] == "RUNNING"
        assert sql.ask("GET", "/healthcheck").status == 200
        streams, queries = sql.ksql("LIST STREAMS; LIST QUERIES;")
        assert {each["name"] for each in streams["streams"]} >= {"ONE", "S", long, "MOVED", "OUT"}
        assert {each["id"] for each in queries["queries"]} == {"CSAS_MOVED_5", "CSAS_OUT_6"}
        sql.ksql("INSERT INTO s (id, v) VALUES ('a', 4);")
        sql.wait_rows("SELECT * FROM out;", [["a", 5]])
        assert "windowed" in sql.refused("CREATE STREAM moved2 AS SELECT * FROM one PARTITION BY v;")[2]
        assert "cannot be carried out" not in sql.said()


def test_servers_of_one_service_share_their_commands(broker: Server) -> None:
    service = ("ksql.service.id=shared_",)
    with (
        running_sql(broker.bootstrap, overrides=service) as one,
        running_sql(broker.bootstrap, overrides=service) as other,
    ):
        for number in range(4):
            (made,) = (one, other)[number % 2].ksql(
                f"CREATE STREAM s{number} (v INT) WITH (kafka_topic='shared', value_format='JSON', partitions=1);"
            )
            other.follow(made)
        names = ["S0", "S1", "S2", "S3"]
        for each in (one, other):
            until(
                lambda each=each: [found["name"] for found in each.ksql("LIST STREAMS;")[0]["streams"]] == names,  # type: ignore[misc]
                "what the other server was told",
            )


def test_a_headless_server_runs_its_file_and_takes_no_statements(broker: Server, tmp_path: Path) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(
        "SET 'auto.offset.reset' = 'earliest';\n"
        "CREATE STREAM h (id STRING KEY, v INT) WITH (kafka_topic='headless', value_format='JSON', partitions=1);\n"
        "CREATE STREAM h2 AS SELECT id, v * 10 AS w FROM h;\n"
    )
    with (
        running_sql(
            broker.bootstrap,
            overrides=("ksql.service.id=headless_",),
            options=("--queries-file", str(file), "--engine", "python"),
        ) as sql,
        running_sql(broker.bootstrap, overrides=("ksql.service.id=asking_",)) as asking,
    ):
        assert sql.ask("POST", "/ksql", {"ksql": "LIST STREAMS;"}).status == 404
        assert sql.ask("GET", "/healthcheck").body["isHealthy"] is True
        asking.ksql(
            "CREATE STREAM h (id STRING KEY, v INT) WITH (kafka_topic='headless', value_format='JSON');"
            "CREATE STREAM h2 (id STRING KEY, w INT) WITH (kafka_topic='H2', value_format='JSON');"
            "INSERT INTO h VALUES ('a', 4);"
        )
        asking.wait_rows("SELECT * FROM h2;", [["a", 40]])


def test_a_login_is_asked_for_where_the_settings_say_so(broker: Server, tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("ann: secret,admin\n")
    (tmp_path / "jaas.conf").write_text(
        'KsqlServer-Props { org.eclipse.jetty.jaas.spi.PropertyFileLoginModule required file="%s"; };'
        % (tmp_path / "passwords")
    )
    overrides = (
        *("ksql.service.id=guarded_", "authentication.method=BASIC", "authentication.roles=admin"),
        f"java.security.auth.login.config={tmp_path / 'jaas.conf'}",
    )
    with running_sql(broker.bootstrap, overrides=overrides) as sql:
        refused = sql.ask("POST", "/ksql", {"ksql": "LIST STREAMS;"})
        assert (refused.status, refused.body["error_code"]) == (401, 40100)
        assert refused.headers["WWW-Authenticate"].startswith("Basic")
        right = sql.ask("POST", "/ksql", {"ksql": "LIST STREAMS;"}, Authorization="Basic YW5uOnNlY3JldA==")
        assert right.status == 200


def test_limits_name_their_settings(broker: Server) -> None:
    overrides = (
        *("ksql.service.id=limited_", "max.push.queries=0", "ksql.query.persistent.active.limit=0"),
        *("ottla.sql.pull.rows.max=2", "ksql.query.pull.table.scan.enabled=false"),
    )
    with running_sql(broker.bootstrap, overrides=overrides) as sql:
        sql.ksql(
            "CREATE STREAM s (v INT) WITH (kafka_topic='limited', value_format='JSON', partitions=1);"
            "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (kafka_topic='limit-t', value_format='JSON', partitions=1);"
        )
        for number in range(3):
            sql.ksql(f"INSERT INTO t VALUES ({number}, 1);")
        for text, path, words in (
            ("SELECT * FROM s EMIT CHANGES;", "/query", "max.push.queries"),
            ("CREATE STREAM x AS SELECT * FROM s;", "/ksql", "ksql.query.persistent.active.limit"),
            ("SELECT * FROM t;", "/query", "ksql.query.pull.table.scan.enabled"),
        ):
            assert words in sql.refused(text, path)[2]
        allowed = {"ksql_query_pull_table_scan_enabled": "true"}
        body = {"ksql": "SELECT * FROM t;", "streamsProperties": {"ksql.query.pull.table.scan.enabled": "true"}}
        assert "ottla.sql.pull.rows.max" in json_text(sql.ask("POST", "/query", body).body)
        assert len(sql.rows("SELECT * FROM t LIMIT 2;", **allowed)) == 2


def json_text(value: object) -> str:
    import json

    return json.dumps(value)


def test_another_server_runs_the_queries_of_one_that_was_killed(broker: Server) -> None:
    service = ("ksql.service.id=failing_",)
    first = start_sql(broker.bootstrap, overrides=service)
    with running_sql(broker.bootstrap, overrides=service) as other:
        *_, made = first.ksql(
            "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='failing', value_format='JSON', partitions=1);"
            "CREATE TABLE t AS SELECT id, SUM(v) AS total FROM s GROUP BY id; INSERT INTO s VALUES ('a', 1);"
        )
        other.follow(made)
        other.wait_rows("SELECT * FROM t;", [["a", 1]])
        first.kill()
        other.ksql("INSERT INTO s VALUES ('a', 2);")
        other.wait_rows("SELECT * FROM t;", [["a", 3]])


def test_a_query_of_the_latest_begins_where_its_topic_ended_when_it_was_made(broker: Server) -> None:
    with running_sql(broker.bootstrap, overrides=("ksql.service.id=latest_",)) as sql:
        sql.ksql(
            "CREATE STREAM s (v INT) WITH (kafka_topic='latest', value_format='JSON', partitions=1);"
            "INSERT INTO s VALUES (1);"
        )
        sql.ksql(
            "CREATE STREAM x AS SELECT * FROM s; INSERT INTO s VALUES (2); INSERT INTO s VALUES (3);",
            auto_offset_reset="latest",
        )
        sql.wait_rows("SELECT * FROM x;", [[2], [3]])


@pytest.mark.slow
def test_a_server_whose_cluster_is_gone_stops_in_seconds(tmp_path: Path) -> None:
    """Thirty seconds and more are what others wait before they kill it, and nothing can be committed any more."""
    with running_server(tmp_path) as broker, running_sql(broker.bootstrap) as sql:
        sql.ksql(
            "CREATE STREAM g (k STRING KEY, v INT) WITH (kafka_topic='gone', format='JSON', partitions=1);"
            "CREATE TABLE c AS SELECT k, COUNT(*) AS n FROM g GROUP BY k; INSERT INTO g VALUES ('a', 1);"
        )
        sql.wait_rows("SELECT n FROM c;", [[1]])
        broker.process.kill()
        until(lambda: "another instance may have the service's queries now" in sql.said(), sql.said)
        sql.process.terminate()
        sql.process.wait(20)
        until(lambda: "is left to its session: " in sql.said(), sql.said)
        assert "is left to its session:  (" not in sql.said()
