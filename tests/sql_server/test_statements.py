"""Statements over REST: what becomes commands, what is told, what is refused."""

from __future__ import annotations

import json

from tests.server import Server
from tests.sql_server.running import SqlProcess
from tests.waiting import until


def stream(name: str, partitions: int = 1) -> str:
    return (
        f"CREATE STREAM {name} (id STRING KEY, v INT) "
        f"WITH (kafka_topic='{name}', value_format='JSON', partitions={partitions});"
    )


def test_a_stream_is_made_with_its_topic_and_described(sql: SqlProcess, name: str) -> None:
    (made,) = sql.ksql(stream(name, 3))
    assert made["@type"] == "currentStatus"
    assert made["commandId"] == f"stream/`{name}`/create"
    assert made["commandStatus"] == {"status": "SUCCESS", "message": "Stream created", "queryId": None}
    (told,) = sql.ksql(f"DESCRIBE {name};")
    description = told["sourceDescription"]
    assert [(each["name"], each.get("type")) for each in description["fields"]] == [("ID", "KEY"), ("V", None)]
    assert description["statement"] == stream(name, 3)
    (extended,) = sql.ksql(f"DESCRIBE {name} EXTENDED;")
    assert extended["sourceDescription"]["partitions"] == 3
    (listed,) = sql.ksql("LIST STREAMS;")
    assert name in [each["name"] for each in listed["streams"]]
    status = sql.ask("GET", f"/status/stream/`{name}`/create".replace("`", "%60"))
    assert (status.status, status.body["status"]) == (200, "SUCCESS")


def test_a_topic_that_is_missing_asks_for_its_partitions(sql: SqlProcess, name: str) -> None:
    status, code, words = sql.refused(
        f"CREATE STREAM {name} (v INT) WITH (kafka_topic='{name}-none', value_format='JSON');"
    )
    assert (status, code) == (400, 40001)
    assert f"Topic '{name}-none' does not exist" in words
    assert "PARTITIONS" in words


def test_a_refused_statement_tells_the_answers_to_those_before_it(sql: SqlProcess, name: str) -> None:
    found = sql.ask("POST", "/ksql", {"ksql": f"{stream(name)} DROP TABLE {name};"})
    assert found.status == 400
    assert found.body["@type"] == "statement_error"
    assert found.body["statementText"] == f"DROP TABLE {name};"
    assert [each["@type"] for each in found.body["entities"]] == ["currentStatus"]


def test_if_not_exists_is_a_warning(sql: SqlProcess, name: str) -> None:
    sql.ksql(stream(name))
    (again,) = sql.ksql(stream(name).replace("CREATE STREAM", "CREATE STREAM IF NOT EXISTS"))
    assert again["@type"] == "warning_entity"


def test_set_and_define_hold_for_the_statements_behind_them(sql: SqlProcess, name: str) -> None:
    text = (
        f"SET 'ksql.persistence.default.format.value' = 'DELIMITED'; DEFINE topic = '{name}'; "
        f"CREATE STREAM {name} (v INT) WITH (kafka_topic='${{topic}}', partitions=1); LIST VARIABLES;"
    )
    made, variables = sql.ksql(text)
    assert made["commandStatus"]["status"] == "SUCCESS"
    assert variables["variables"] == [{"name": "topic", "value": name}]
    (told,) = sql.ksql(f"DESCRIBE {name};")
    assert told["sourceDescription"]["valueFormat"] == "DELIMITED"


def test_types_functions_properties_and_topics_are_listed(sql: SqlProcess, name: str) -> None:
    made, types = sql.ksql(f"CREATE TYPE {name} AS STRUCT<a INT, b ARRAY<DECIMAL(4, 2)>>; LIST TYPES;")
    assert made["commandStatus"]["message"].startswith(f"Registered custom type with name '{name}'")
    fields = types["types"][name]["fields"]
    assert fields[1]["schema"]["memberSchema"]["parameters"] == {"precision": 4, "scale": 2}
    functions, one, properties, topics = sql.ksql(
        "LIST FUNCTIONS; DESCRIBE FUNCTION transform; LIST PROPERTIES; SHOW ALL TOPICS;"
    )
    assert {"COUNT", "ABS", "EXPLODE"} <= {each["name"] for each in functions["functions"]}
    assert one["functions"][0]["returnType"] == "ARRAY<R>"
    assert {"ksql.service.id"} <= {each["name"] for each in properties["properties"]}
    assert "_confluent-ksql-default__command_topic" in [each["name"] for each in topics["topics"]]


def test_queries_are_paused_resumed_terminated_and_explained(sql: SqlProcess, name: str) -> None:
    sql.ksql(stream(name))
    (made,) = sql.ksql(f"CREATE STREAM {name}_x AS SELECT id, v + 1 AS w FROM {name} EMIT CHANGES;")
    id_ = made["commandStatus"]["queryId"]
    assert id_ == f"CSAS_{name}_X_{made['commandSequenceNumber']}"

    def state() -> str:
        (told,) = sql.ksql(f"EXPLAIN {id_};")
        assert f"(topics: [{name}])" in told["queryDescription"]["topology"]
        return str(told["queryDescription"]["state"])

    sql.ksql(f"PAUSE {id_};")
    assert state() == "PAUSED"
    sql.ksql(f"RESUME {id_};")
    assert state() == "RUNNING"
    assert "read from this source" in sql.refused(f"DROP STREAM {name};")[2]
    sql.ksql(f"TERMINATE {id_};")
    assert f"Query with id:{id_} does not exist" in sql.refused(f"EXPLAIN {id_};")[2]
    sql.ksql(f"DROP STREAM {name}_x DELETE TOPIC; DROP STREAM {name};")


def internal_topics(sql: SqlProcess, query: str) -> set[str]:
    (listed,) = sql.ksql("SHOW ALL TOPICS;")
    return {each["name"] for each in listed["topics"] if f"query_{query}-" in each["name"]}


def test_a_query_that_ends_leaves_the_topics_of_one_whose_id_begins_alike(sql: SqlProcess, name: str) -> None:
    sql.ksql(stream(name))
    (made,) = sql.ksql(f"CREATE TABLE {name}_t AS SELECT v, COUNT(*) AS c FROM {name} GROUP BY v;")
    id_ = made["commandStatus"]["queryId"]
    alike = f"`{id_.removeprefix('CTAS_')}-x`"
    (other,) = sql.ksql(f"CREATE TABLE {alike} AS SELECT v, COUNT(*) AS c FROM {name} GROUP BY v;")
    other_id = other["commandStatus"]["queryId"]
    assert other_id.startswith(f"{id_}-")
    until(lambda: len(internal_topics(sql, id_) - internal_topics(sql, other_id)) == 2, "topics of the one")
    until(lambda: len(internal_topics(sql, other_id)) == 2, "topics of the other")
    kept = internal_topics(sql, other_id)
    sql.ksql(f"TERMINATE {id_};")
    until(lambda: internal_topics(sql, id_) <= kept, "the end of the one")
    assert internal_topics(sql, id_) == kept
    sql.ksql(f"TERMINATE `{other_id}`;")


def test_a_name_that_is_empty_or_blank_is_refused_wherever_one_may_stand(sql: SqlProcess, name: str) -> None:
    form = f"WITH (kafka_topic='{name}', value_format='JSON', partitions=1)"
    for text in (
        f'CREATE STREAM "" (v INT) {form};',
        f"CREATE STREAM {name} (` ` INT) {form};",
        f"CREATE STREAM {name} (v STRUCT<`` INT>) {form};",
        "CREATE TYPE `` AS INT;",
        "CREATE SOURCE CONNECTOR `` WITH ('a' = 'b');",
        "DROP CONNECTOR ` `;",
        "TERMINATE ``;",
    ):
        status, code, words = sql.refused(text)
        assert (status, code, "may not be empty or blank" in words) == (400, 40001, True), (text, words)
    assert "may not be empty or blank" in sql.refused("SELECT 1 AS `` FROM s;", "/query")[2]


def test_a_time_too_far_away_is_the_statements_mistake_and_names_its_bound(sql: SqlProcess, name: str) -> None:
    sql.ksql(f"CREATE STREAM {name} (t TIMESTAMP) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);")
    for text, bound, path in (
        (
            f"INSERT INTO {name} (ROWTIME, t) VALUES (9223372036854775807, NULL);",
            "message.timestamp.after.max.ms",
            "/ksql",
        ),
        (f"INSERT INTO {name} (ROWTIME, t) VALUES (253402300800000, NULL);", "message.timestamp.after.max.ms", "/ksql"),
        (f"INSERT INTO {name} (t) VALUES ('2020-01-01T00:00:00+99:99');", "Timestamp format", "/ksql"),
        (f"SELECT * FROM {name} WHERE ROWTIME > '2020-01-01T00:00+9999';", "offset", "/query"),
        (f"SELECT * FROM {name} WHERE ROWTIME > '0000-01-01';", "out of range", "/query"),
    ):
        status, code, words = sql.refused(text, path)
        assert (status, code, bound in words) == (400, 40001, True), (text, words)
    line = json.dumps({"target": name}) + "\n" + json.dumps({"ROWTIME": 9223372036854775807, "T": None}) + "\n"
    told = sql.ask("POST", "/inserts-stream", line.encode())
    assert '"error_code":40001' in str(told.body) or told.body["error_code"] == 40001, told


def test_assertions_of_topics_hold_or_fail_with_417(sql: SqlProcess, name: str) -> None:
    sql.ksql(stream(name, 2))
    (held,) = sql.ksql(f"ASSERT TOPIC {name} WITH (partitions=2);")
    assert (held["@type"], held["exists"]) == ("assert_topic", True)
    status, code, words = sql.refused(f"ASSERT TOPIC {name} WITH (partitions=3) TIMEOUT 1 MILLISECOND;")
    assert (status, code) == (417, 41700)
    assert "expected 3 got 2" in words
    sql.ksql(f"ASSERT NOT EXISTS TOPIC {name}_none;")


def test_insert_values_is_refused_in_ksqldbs_words(sql: SqlProcess, name: str) -> None:
    sql.ksql(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);"
    )
    assert "primary key" in sql.refused(f"INSERT INTO {name} (v) VALUES (1);")[2]
    assert "does not exist" in sql.refused(f"INSERT INTO {name} (id, w) VALUES (1, 1);")[2]
    assert "unknown stream/table" in sql.refused(f"INSERT INTO {name}_none VALUES (1);")[2]
    assert (
        "Expected type INTEGER for field `V` but got STRING(5)"
        in sql.refused(f"INSERT INTO {name} VALUES (1, '5');")[2]
    )
    assert "Invalid timestamp: -1" in sql.refused(f"INSERT INTO {name} (ROWTIME, id) VALUES (-1, 1);")[2]
    assert "`ROWOFFSET` is not allowed" in sql.refused(f"INSERT INTO {name} (ROWOFFSET, id) VALUES (1, 1);")[2]


def test_a_row_of_json_is_refused_by_the_rules_of_insert_values(sql: SqlProcess, name: str) -> None:
    sql.ksql(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);"
        f"CREATE SOURCE TABLE {name}_r (id INT PRIMARY KEY, v INT) WITH (kafka_topic='{name}', value_format='JSON');"
        f"CREATE STREAM {name}_h (v INT, h BYTES HEADER('a')) WITH (kafka_topic='{name}', value_format='JSON');"
    )

    def said(target: str, row: dict[str, object]) -> str:
        lines = "".join(f"{json.dumps(each)}\n" for each in ({"target": target}, row))
        answer = sql.ask("POST", "/inserts-stream", lines.encode()).body
        return str(answer.get("message", answer["status"]))

    assert "primary key" in said(name, {"v": 1})
    assert "Invalid timestamp: -1" in said(name, {"id": 1, "rowtime": -1})
    assert "`ROWOFFSET` is not allowed" in said(name, {"id": 1, "rowoffset": 1})
    assert "read-only" in said(f"{name}_r", {"id": 1})
    assert "HEADER columns: H" in said(f"{name}_h", {"v": 1, "h": "YQ=="})
    assert said(f"{name}_h", {"v": 1}) == said(name, {"id": 1, "rowtime": 5}) == "ok"


def test_a_query_does_not_belong_to_ksql_nor_a_command_to_query(sql: SqlProcess, name: str) -> None:
    assert sql.refused("SELECT * FROM nothing EMIT CHANGES;")[:2] == (400, 40002)
    assert sql.refused(stream(name), "/query")[:2] == (400, 40002)


def test_bad_requests_are_told(sql: SqlProcess) -> None:
    for body in (b"", b"nothing", b"[]", b'{"ksql": 1}', b'{"ksql": "LIST STREAMS;", "streamsProperties": 1}'):
        found = sql.ask("POST", "/ksql", body)
        assert (found.status, found.body["error_code"]) == (400, 40000)
    assert sql.refused("LIST STREAMS")[1] == 40001
    assert sql.ask("GET", "/nothing").status == 404
    assert sql.ask("GET", "/status/stream/none/create").body["error_code"] == 40400


def test_the_server_tells_of_itself(sql: SqlProcess) -> None:
    info = sql.ask("GET", "/").body["KsqlServerInfo"]
    assert (info["ksqlServiceId"], info["serverStatus"]) == ("default_", "RUNNING")
    assert sql.ask("GET", "/healthcheck").body["isHealthy"] is True
    assert sql.ask("GET", "/is_valid_property/ksql.streams.num.stream.threads").body is True
    assert sql.ask("GET", "/is_valid_property/ksql.service.id").status == 400
    assert sql.ask("GET", "/v1/metadata/id").body["scope"]["clusters"]["ksql-cluster"] == "default_"
    assert "ottla_sql_queries" in sql.ask("GET", "/metrics").body


def test_a_sequence_number_that_is_not_there_yet_is_waited_for(broker: Server, sql: SqlProcess, name: str) -> None:
    (made,) = sql.ksql(stream(name))
    done = sql.ask("POST", "/ksql", {"ksql": "LIST STREAMS;", "commandSequenceNumber": made["commandSequenceNumber"]})
    assert done.status == 200
