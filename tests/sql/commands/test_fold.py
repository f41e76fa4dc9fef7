"""Statements become commands, and commands replayed make the same server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pytest

from ottla.sql import SqlError, parse_statement
from ottla.sql.commands import (
    Command,
    CommandId,
    DeleteTopic,
    EndQuery,
    ServerState,
    UnreadableCommandError,
    apply,
    decide,
    leave_out,
    topic_wish,
)
from ottla.sql.lowering import topology_of
from ottla.sql.tree import expressions as e

STREAM = "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='t', value_format='JSON', partitions=3);"
RESULT = "CREATE STREAM x AS SELECT id, v + 1 AS w FROM s EMIT CHANGES;"


class Session:
    """A state, and the records that made it."""

    def __init__(self) -> None:
        self.state = ServerState()
        self.records: list[tuple[bytes, bytes]] = []
        self.effects: list[object] = []

    def run(
        self, text: str, properties: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None
    ) -> str:
        statement = parse_statement(text, self.state.catalogue.types)
        number = 2 * len(self.records)
        made = decide(statement, text, self.state, properties=properties or {}, settings=settings or {}, number=number)
        if made.command is None:
            return made.warning or ""
        self.records.append((made.command.key(), made.command.value()))
        applied = apply(self.state, Command.read(*self.records[-1]))
        assert made.expected is not None
        assert applied.state == made.expected.state
        self.state = applied.state
        self.effects.extend(applied.effects)
        return applied.message


def session(*texts: str) -> Session:
    found = Session()
    for text in texts:
        found.run(text)
    return found


def replayed(records: Iterable[tuple[bytes, bytes]]) -> ServerState:
    state = ServerState()
    for key, value in records:
        state = apply(state, Command.read(key, value)).state
    return state


def test_replayed_commands_make_the_same_server() -> None:
    found = session(
        "CREATE TYPE place AS STRUCT<lat DOUBLE, lon DOUBLE>;",
        STREAM,
        "CREATE STREAM p (id STRING KEY, spot place) WITH (kafka_topic='p', value_format='JSON');",
        RESULT,
        "INSERT INTO x SELECT id, v AS w FROM s EMIT CHANGES;",
        "PAUSE CSAS_X_6;",
        "ALTER STREAM s ADD COLUMN u BIGINT;",
        "CREATE OR REPLACE STREAM x AS SELECT id, v + 1 AS w, v FROM s EMIT CHANGES;",
        "TERMINATE INSERTQUERY_8;",
    )
    assert replayed(found.records) == found.state
    assert list(found.state.queries) == ["CSAS_X_6"]


def test_a_query_is_named_after_its_commands_offset_and_keeps_its_name_when_it_is_replaced() -> None:
    found = session(STREAM, RESULT)
    assert list(found.state.queries) == ["CSAS_X_2"]
    found.run("CREATE OR REPLACE STREAM x AS SELECT id, v + 2 AS w FROM s EMIT CHANGES;")
    assert list(found.state.queries) == ["CSAS_X_2"]
    assert found.state.catalogue.source("X").made_by == "CSAS_X_2"


def test_what_the_session_said_is_in_the_command_and_holds_at_the_replay() -> None:
    found = Session()
    found.run(
        "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='t', partitions=1);",
        {"ksql.persistence.default.format.value": "DELIMITED"},
    )
    assert replayed(found.records).catalogue.source("S").layout.value_format == "DELIMITED"


def test_the_servers_prefix_of_topics_is_in_the_command_and_not_todays() -> None:
    found = session(STREAM)
    found.run(RESULT, settings={"ksql.output.topic.name.prefix": "eu-"})
    assert found.state.catalogue.source("X").topic == "eu-X"
    assert replayed(found.records).catalogue.source("X").topic == "eu-X"


def test_if_not_exists_writes_no_command() -> None:
    found = session(STREAM)
    said = found.run(STREAM.replace("STREAM s", "STREAM IF NOT EXISTS s"))
    assert said == "Cannot add stream `S`: A stream with the same name already exists."
    assert found.run("DROP STREAM IF EXISTS nothing;") == "Source `NOTHING` does not exist."
    assert len(found.records) == 1


def test_a_source_that_others_are_made_of_is_not_dropped() -> None:
    found = session(STREAM, RESULT)
    with pytest.raises(SqlError, match=r"read from this source: \[X\]"):
        found.run("DROP STREAM s;")
    found.run("INSERT INTO x SELECT id, v AS w FROM s EMIT CHANGES;")
    with pytest.raises(SqlError, match=r"write into this source: \[INSERTQUERY_4\]"):
        found.run("DROP STREAM x;")


def test_dropping_a_result_ends_its_query_and_deletes_its_topic_where_that_is_said() -> None:
    found = session(STREAM, RESULT)
    said = found.run("DROP STREAM x DELETE TOPIC;")
    assert said == "Source `X` (topic: X) was dropped."
    assert [type(each) for each in found.effects[1:]] == [EndQuery, DeleteTopic]
    assert not found.state.queries
    found.run("DROP STREAM s;")
    assert replayed(found.records) == found.state


def test_terminate_all_and_pause_all_take_every_query() -> None:
    found = session(STREAM, RESULT, "CREATE STREAM y AS SELECT * FROM s EMIT CHANGES;")
    found.run("PAUSE ALL;")
    assert all(each.is_paused for each in found.state.queries.values())
    found.run("RESUME CSAS_Y_4;")
    assert [each.is_paused for each in found.state.queries.values()] == [True, False]
    found.run("TERMINATE ALL;")
    assert not found.state.queries


def test_an_unknown_query_is_refused() -> None:
    with pytest.raises(SqlError, match="Unknown queryId: NOTHING"):
        session("TERMINATE nothing;")


def test_insert_into_may_name_its_query() -> None:
    found = session(STREAM, RESULT)
    found.run("INSERT INTO x WITH (QUERY_ID='more') SELECT id, v AS w FROM s EMIT CHANGES;")
    assert "MORE" in found.state.queries
    with pytest.raises(SqlError, match="already exists"):
        found.run("INSERT INTO x WITH (QUERY_ID='more') SELECT id, v AS w FROM s EMIT CHANGES;")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "CREATE OR REPLACE STREAM s (id STRING KEY, u INT) WITH (kafka_topic='t', value_format='JSON');",
            "`V` INTEGER",
        ),
        ("CREATE OR REPLACE STREAM s (i STRING KEY, v INT) WITH (kafka_topic='t', value_format='JSON');", "key"),
        ("CREATE OR REPLACE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='u', value_format='JSON');", "topic = t"),
        (
            "CREATE OR REPLACE TABLE s (id STRING PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');",
            "TABLE",
        ),
        (
            "CREATE OR REPLACE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='t', value_format='DELIMITED');",
            "value format = JSON",
        ),
    ],
)
def test_a_replacement_that_readers_would_not_understand_is_refused(text: str, words: str) -> None:
    with pytest.raises(SqlError, match=f"Cannot upgrade data source.*{words}"):
        session(STREAM, text)


def test_columns_may_be_appended_by_a_replacement() -> None:
    found = session(STREAM)
    found.run("CREATE OR REPLACE STREAM s (id STRING KEY, v INT, u INT) WITH (kafka_topic='t', value_format='JSON');")
    assert found.state.catalogue.source("S").schema.find("U") is not None
    assert "u INT" in found.state.statements["S"]


def test_a_topic_is_wished_for_with_the_numbers_of_the_statement() -> None:
    statement = parse_statement(STREAM)
    made = decide(statement, STREAM, ServerState(), properties={}, settings={}, number=0)
    wish = topic_wish(statement, made)
    assert wish is not None
    assert (wish.name, wish.partitions, wish.replicas) == ("t", 3, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b'"stream/`S`/create"', None),
        (b"nothing", b"{}"),
        (b'"stream"', b'{"statement":"x"}'),
        (b'"stream/`S`/create"', b'{"statement":"x","version":1000}'),
        (b'"stream/`S`/create"', b"[" * 100_000),
    ],
)
def test_a_record_that_is_no_command_is_told(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(UnreadableCommandError):
        Command.read(key, value)


def test_an_id_reads_what_it_prints() -> None:
    found = CommandId("stream", "`a/b`", "create")
    assert CommandId.of(str(found)) == found


def test_what_a_query_means_stays_when_the_servers_settings_change() -> None:
    found = session(STREAM)
    text = "CREATE STREAM y AS SELECT id, CAST(v AS STRING) AS t, ARRAY[v] AS a FROM s EMIT CHANGES;"
    found.run(text, settings={"ksql.cast.strings.preserve.nulls": "false", "ksql.nested.error.set.null": "false"})
    assert replayed(found.records) == found.state
    (query,) = found.state.queries.values()
    rules = [getattr(each.expression, "rules", None) for each in query.plan.value]
    assert [(each.null_texts, each.whole) for each in rules if each is not None] == [(True, True)] * 2


def test_a_query_is_not_replaced_where_a_setting_forbids_it() -> None:
    found = session(STREAM, RESULT)
    text = RESULT.replace("CREATE", "CREATE OR REPLACE")
    with pytest.raises(SqlError, match="Cannot add stream 'X': A stream with the same name already exists"):
        found.run(text, settings={"ksql.create.or.replace.enabled": "false"})
    found.run(text)
    assert replayed(found.records) == found.state


def test_a_field_whose_name_looks_like_a_made_one_takes_no_number_from_the_others() -> None:
    found = session(
        "CREATE STREAM s (id STRING KEY, v INT, a STRUCT<ksql_col INT>, b STRUCT<ksql_col INT>) "
        "WITH (kafka_topic='t', value_format='JSON', partitions=1);",
        "CREATE STREAM y AS SELECT id, a->ksql_col, b->ksql_col, v + 1, v + 2 FROM s EMIT CHANGES;",
    )
    made = [each.name for each in found.state.catalogue.source("Y").schema.value]
    assert made == ["KSQL_COL", "KSQL_COL_1", "KSQL_COL_0", "KSQL_COL_2"]


def test_of_two_spellings_of_a_property_the_last_one_that_was_said_counts() -> None:
    plain, whole = "auto.offset.reset", "ksql.streams.auto.offset.reset"
    found = session(
        STREAM,
        f"ALTER SYSTEM '{plain}'='earliest';",
        f"ALTER SYSTEM '{whole}'='latest';",
        f"ALTER SYSTEM '{plain}'='earliest';",
        RESULT,
    )
    (query,) = found.state.queries.values()
    assert list(query.properties.items())[-1] == (plain, "earliest")
    found.run(f"ALTER SYSTEM '{whole}'='latest';")
    found.run(RESULT.replace("STREAM x", "STREAM y"), properties={plain: "earliest"})
    assert list(list(found.state.queries.values())[-1].properties.items())[-1] == (plain, "earliest")


def test_a_group_of_many_columns_is_not_compared_with_itself_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    plain = e.Column.__eq__

    def counted(one: e.Column, other: object) -> bool:
        nonlocal compared
        compared += 1
        return plain(one, other)

    count = 200
    found = session(
        f"CREATE STREAM s (k INT KEY, {', '.join(f'c{at} INT' for at in range(count))}) "
        "WITH (kafka_topic='t', format='JSON', partitions=1);"
    )
    names = ", ".join(f"c{at}" for at in range(count))
    monkeypatch.setattr(e.Column, "__eq__", counted)
    found.run(f"CREATE TABLE r AS SELECT {names}, COUNT(*) FROM s GROUP BY {names} EMIT CHANGES;")
    assert compared < 40 * count


def written_before(*texts: str) -> list[tuple[bytes, bytes]]:
    """Commands as version 0.3 wrote them: nothing says under which rules."""
    found = []
    for text in texts:
        about, query_id, statement = text.split("|", 2)
        value = {"statement": statement, "streamsProperties": {}, "originalProperties": {}, "version": 1}
        value["plan"] = {"queryId": query_id} if query_id else None
        found.append((json.dumps(about).encode(), json.dumps(value).encode()))
    return found


def followed(records: Iterable[tuple[bytes, bytes]]) -> ServerState:
    """The state behind commands, of which some cannot be carried out."""
    state = ServerState()
    for key, value in records:
        command = Command.read(key, value)
        try:
            state = apply(state, command).state
        except SqlError as error:
            state = leave_out(state, command, str(error))
    return state


LONG = "N" * 201
HOURS = (
    "(id STRING KEY, v INT) WITH (kafka_topic='w', value_format='JSON', window_type='TUMBLING', window_size='{} HOUR');"
)
TAKEN_BEFORE = (
    "stream/`S`/create||CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='t', value_format='JSON');",
    "stream/``/create||CREATE STREAM \"\" (id STRING KEY, \" \" INT) WITH (kafka_topic='t', value_format='JSON');",
    f"stream/`{LONG}`/create||CREATE STREAM {LONG} (id STRING KEY, v INT) WITH (kafka_topic='t', value_format='JSON');",
    f"stream/`{LONG}`/insert|INSERTQUERY_6|INSERT INTO {LONG} SELECT * FROM s;",
    f"stream/`ONE`/create||CREATE STREAM one {HOURS.format(1)}",
    f"stream/`TWO`/create||CREATE STREAM two {HOURS.format(2)}",
    "stream/`BARE`/create||CREATE STREAM bare (v INT) WITH (kafka_topic='w', value_format='JSON', "
    "window_type='SESSION');",
    "stream/`MOVED`/create|CSAS_MOVED_14|CREATE STREAM moved AS SELECT * FROM one PARTITION BY v;",
    "stream/`KEPT`/create|CSAS_KEPT_16|CREATE STREAM kept AS SELECT * FROM one PARTITION BY id;",
    "stream/`JOINED`/create|CSAS_JOINED_18|CREATE STREAM joined AS SELECT one.id, one.v FROM one JOIN two "
    "WITHIN 1 HOUR ON one.id = two.id;",
    f"stream/`MANY`/create|CSAS_MANY_20|CREATE STREAM many AS SELECT * FROM s WHERE v < {'1' * 1200}.5;",
    "table/`R`/create||CREATE SOURCE TABLE r (id STRING PRIMARY KEY) WITH (kafka_topic='r', value_format='JSON');",
    "table/`R`/create||CREATE OR REPLACE SOURCE TABLE r (id STRING PRIMARY KEY, v INT) "
    "WITH (kafka_topic='r', value_format='JSON');",
    "stream/`TOO`/create||CREATE STREAM too (v INT) WITH (kafka_topic='w', value_format='JSON');",
    "stream/`TOO`/drop||DROP STREAM too DELETE TOPIC;",
    "table/`HOPS`/create|CTAS_HOPS_30|CREATE TABLE hops AS SELECT id, COUNT(*) AS n FROM s "
    "WINDOW HOPPING (SIZE 10 DAYS, ADVANCE BY 1 SECOND) GROUP BY id;",
)


def test_what_an_earlier_version_took_is_taken_at_a_replay_though_it_is_refused_now() -> None:
    state = followed(written_before(*TAKEN_BEFORE))
    assert dict(state.left_out) == {}
    assert sorted(state.queries) == [
        *("CSAS_JOINED_18", "CSAS_KEPT_16", "CSAS_MANY_20", "CSAS_MOVED_14", "CTAS_HOPS_30", "INSERTQUERY_6")
    ]
    assert set(state.catalogue.sources) == {
        *("", LONG, "S", "ONE", "TWO", "BARE", "MOVED", "KEPT", "JOINED", "MANY", "R", "HOPS")
    }
    assert [column.name for column in state.catalogue.source("R").schema.columns] == ["ID", "V"]


def test_what_an_earlier_version_took_is_refused_when_it_is_said_anew() -> None:
    refused = []
    found = Session()
    for text in TAKEN_BEFORE:
        try:
            found.run(text.split("|", 2)[2])
        except SqlError:
            refused.append(text.split("|", 1)[0])
    assert refused == [
        *("stream/``/create", f"stream/`{LONG}`/create", f"stream/`{LONG}`/insert", "stream/`BARE`/create"),
        *("stream/`MOVED`/create", "stream/`JOINED`/create", "stream/`MANY`/create", "table/`R`/create"),
        *("stream/`TOO`/drop", "table/`HOPS`/create"),
    ]


def test_a_replayed_query_keeps_the_keys_that_its_results_have() -> None:
    before = followed(written_before(*TAKEN_BEFORE))
    assert before.catalogue.source("KEPT").window is None
    now = session(f"CREATE STREAM one {HOURS.format(1)}", "CREATE STREAM kept AS SELECT * FROM one PARTITION BY id;")
    assert now.state.catalogue.source("KEPT").window is not None
    assert replayed(now.records) == now.state


def test_a_replayed_query_over_a_table_with_headers_keeps_its_states() -> None:
    texts = (
        "CREATE TABLE t (id STRING PRIMARY KEY, v INT, h BYTES HEADER('a')) WITH (kafka_topic='t', value_format='JSON');",
        "CREATE TABLE c AS SELECT v, COUNT(*) AS n FROM t GROUP BY v;",
    )
    before = followed(written_before(f"table/`T`/create||{texts[0]}", f"table/`C`/create|CTAS_C_2|{texts[1]}"))
    now = session(*texts).state
    stores = [set(topology_of(each.queries["CTAS_C_2"].plan).stores) for each in (before, now)]
    assert stores[1] - stores[0] == {"KsqlTopic-Reduce-Rows"}
    assert not stores[0] - stores[1]


def test_a_stream_without_a_name_can_still_be_dropped() -> None:
    state = followed(written_before(*TAKEN_BEFORE))
    statement = parse_statement('DROP STREAM "";')
    made = decide(statement, 'DROP STREAM "";', state, properties={}, settings={}, number=40)
    assert made.expected is not None
    assert "" not in made.expected.state.catalogue.sources


FAILS = "stream/`X`/create|CSAS_X_2|CREATE STREAM x AS SELECT nothing FROM s;"
INSERTS = "stream/`S`/insert|INSERTQUERY_4|INSERT INTO s SELECT nothing FROM s;"


@pytest.mark.parametrize(
    "behind",
    [
        ["stream/`X`/drop||DROP STREAM x;"],
        ["terminate/CSAS_X_2/execute||TERMINATE CSAS_X_2;", "stream/`X`/drop||DROP STREAM IF EXISTS x DELETE TOPIC;"],
        ["pause/CSAS_X_2/execute||PAUSE CSAS_X_2;", "stream/`X`/create|CSAS_X_9|CREATE STREAM x AS SELECT * FROM s;"],
        ["stream/`X`/alter||ALTER STREAM x ADD COLUMN u INT;", "stream/`X`/drop||DROP STREAM x;"],
        [
            "stream/`Y`/create|CSAS_Y_6|CREATE STREAM y AS SELECT * FROM x;",
            *("stream/`Y`/drop||DROP STREAM y;", "stream/`X`/drop||DROP STREAM x;"),
        ],
        [INSERTS, "terminate/INSERTQUERY_4/execute||TERMINATE INSERTQUERY_4;", "stream/`X`/drop||DROP STREAM x;"],
        [INSERTS, "terminate/ALL/execute||TERMINATE ALL;", "stream/`X`/drop||DROP STREAM x;"],
    ],
)
def test_a_query_that_cannot_be_made_and_is_ended_later_does_not_count(behind: list[str]) -> None:
    state = followed(written_before(TAKEN_BEFORE[0], FAILS, *behind))
    assert dict(state.left_out) == {}
    assert "S" in state.catalogue.sources


def test_a_query_that_cannot_be_made_counts_while_its_stream_is_not_dropped() -> None:
    state = followed(written_before(TAKEN_BEFORE[0], FAILS, INSERTS, "terminate/CSAS_X_2/execute||TERMINATE CSAS_X_2;"))
    assert list(state.left_out) == ["`X`", "INSERTQUERY_4"]
    for text in ("TERMINATE INSERTQUERY_4;", "DROP STREAM IF EXISTS x;"):
        statement = parse_statement(text)
        made = decide(statement, text, state, properties={}, settings={}, number=40)
        assert made.expected is not None
        state = made.expected.state
    assert dict(state.left_out) == {}
