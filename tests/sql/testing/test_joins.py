"""Joins of streams and tables: what is joined, what the columns and the key are called, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from ottla.sql.testing import Refused, run_case

STREAMS = (
    "CREATE STREAM CLICKS (USER STRING KEY, PAGE STRING, N INT) WITH (KAFKA_TOPIC='clicks', FORMAT='JSON');"
    "CREATE STREAM BUYS (USER STRING KEY, ITEM STRING, N INT) WITH (KAFKA_TOPIC='buys', FORMAT='JSON');"
    "CREATE STREAM GIFTS (USER STRING KEY, ITEM STRING) WITH (KAFKA_TOPIC='gifts', FORMAT='JSON');"
)
TABLES = (
    "CREATE TABLE USERS (ID STRING PRIMARY KEY, CITY STRING, AGE INT) WITH (KAFKA_TOPIC='users', FORMAT='JSON');"
    "CREATE TABLE CITIES (ID STRING PRIMARY KEY, LAND STRING) WITH (KAFKA_TOPIC='cities', FORMAT='JSON');"
    "CREATE TABLE PETS (ID STRING PRIMARY KEY, NAME STRING) WITH (KAFKA_TOPIC='pets', FORMAT='JSON');"
)
WITHIN = "WITHIN 10 MILLISECONDS"
Given = Mapping[str, object]
Rows = list[tuple[object, object, int]]


def row(topic: str, key: object, timestamp: int = 0, **value: object) -> Given:
    return {"topic": topic, "key": key, "value": value or None, "timestamp": timestamp}


def results(text: str, *inputs: Given) -> Rows:
    return [
        (each.key, each.value, each.timestamp)
        for each in run_case(STREAMS + TABLES + text, inputs)
        if each.topic == "R"
    ]


def refusal(text: str) -> str:
    with pytest.raises(Refused) as refused:
        run_case(STREAMS + TABLES + text, ())
    return str(refused.value)


def joined(clause: str, select: str = "*", made: str = "STREAM") -> str:
    return f"CREATE {made} R AS SELECT {select} FROM {clause};"


CLICKED = (
    row("clicks", "ann", 10, PAGE="p", N=1),
    row("buys", "ann", 15, ITEM="ink", N=2),
    row("buys", "bob", 16, ITEM="pen"),
    row("clicks", "ann", 30, PAGE="q"),
)


def test_records_of_two_streams_meet_within_their_window_and_have_the_later_time() -> None:
    query = joined(f"CLICKS JOIN BUYS {WITHIN} ON CLICKS.USER = BUYS.USER")
    assert results(query, *CLICKED) == [
        ("ann", {"CLICKS_PAGE": "p", "CLICKS_N": 1, "BUYS_USER": "ann", "BUYS_ITEM": "ink", "BUYS_N": 2}, 15)
    ]


def test_without_grace_a_record_that_has_no_partner_is_told_at_once() -> None:
    query = joined(f"CLICKS C LEFT JOIN BUYS B {WITHIN} ON C.USER = B.USER", "C.USER AS U, PAGE, ITEM")
    assert results(query, *CLICKED) == [
        ("ann", {"PAGE": "p", "ITEM": None}, 10),
        ("ann", {"PAGE": "p", "ITEM": "ink"}, 15),
        ("ann", {"PAGE": "q", "ITEM": None}, 30),
    ]


def test_with_grace_a_record_that_has_no_partner_is_told_when_its_window_is_over() -> None:
    query = joined(
        f"CLICKS C LEFT JOIN BUYS B {WITHIN} GRACE PERIOD 2 MILLISECONDS ON C.USER = B.USER", "C.USER, PAGE, ITEM"
    )
    late = row("buys", "zoe", 50, ITEM="x")
    assert results(query, *CLICKED, late) == [
        ("ann", {"PAGE": "p", "ITEM": "ink"}, 15),
        ("ann", {"PAGE": "q", "ITEM": None}, 30),
    ]


def test_a_right_join_keeps_the_right_side_and_its_window_looks_the_same_way() -> None:
    query = joined(
        "CLICKS C RIGHT OUTER JOIN BUYS B WITHIN (0 SECONDS, 7 MILLISECONDS) ON C.USER = B.USER", "B.USER, PAGE, ITEM"
    )
    before = row("buys", "ann", 9, ITEM="early")
    assert results(query, *CLICKED, before) == [
        ("ann", {"PAGE": "p", "ITEM": "ink"}, 15),
        ("bob", {"PAGE": None, "ITEM": "pen"}, 16),
        ("ann", {"PAGE": None, "ITEM": "early"}, 9),
    ]


def test_a_full_join_makes_a_key_of_its_own_that_can_be_renamed() -> None:
    clause = f"CLICKS C FULL OUTER JOIN BUYS B {WITHIN} ON C.USER = B.USER"
    assert results(joined(clause, "ROWKEY AS WHO, C.USER, B.USER, ITEM"), *CLICKED[1:3], CLICKED[0]) == [
        ("ann", {"C_USER": None, "B_USER": "ann", "ITEM": "ink"}, 15),
        ("bob", {"C_USER": None, "B_USER": "bob", "ITEM": "pen"}, 16),
        ("ann", {"C_USER": "ann", "B_USER": "ann", "ITEM": "ink"}, 15),
    ]
    assert "ROWKEY was added as a synthetic key column" in refusal(joined(clause, "C.USER, ITEM"))


def test_a_made_key_has_a_name_that_no_source_has() -> None:
    text = "CREATE STREAM ODD (ROWKEY STRING KEY, V INT) WITH (KAFKA_TOPIC='odd', FORMAT='JSON');"
    clause = f"CLICKS FULL JOIN ODD {WITHIN} ON CLICKS.USER = ODD.ROWKEY"
    (found,) = results(text + joined(clause, "ROWKEY_1, ODD.ROWKEY, V"), row("odd", "k", V=1))
    assert found == ("k", {"ROWKEY": "k", "V": 1}, 0)


def test_streams_joined_by_other_columns_and_expressions_get_them_as_their_key() -> None:
    clause = f"CLICKS C JOIN BUYS B {WITHIN} ON UCASE(C.PAGE) = UCASE(B.ITEM)"
    inputs = row("clicks", None, 1, PAGE="Ink"), row("buys", "bob", 3, ITEM="iNK"), row("buys", "bob", 4)
    assert results(joined(clause, "ROWKEY, B.USER"), *inputs) == [("INK", {"B_USER": "bob"}, 3)]
    by_column = joined(f"CLICKS C JOIN BUYS B {WITHIN} ON C.PAGE = B.ITEM", "ITEM, B.USER, PAGE AS P")
    others = row("clicks", None, PAGE="x"), row("buys", "u", ITEM="x")
    assert results(by_column, *others) == [("x", {"ITEM": "x", "B_USER": "u"}, 0)]


def test_the_left_key_is_the_key_unless_only_the_right_one_is_selected() -> None:
    clause = f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER = B.USER"
    assert results(joined(clause, "B.USER, C.USER, ITEM"), *CLICKED) == [("ann", {"B_USER": "ann", "ITEM": "ink"}, 15)]
    assert results(joined(clause, "B.USER AS U, ITEM"), *CLICKED) == [("ann", {"ITEM": "ink"}, 15)]
    assert refusal(joined(clause, "ITEM, PAGE")) == (
        "Key missing from projection (ie, SELECT). \n"
        "The query used to build `R` must include the join expressions C.USER or B.USER in its projection "
        "(eg, SELECT C.USER...)."
    )


def test_a_stream_meets_the_row_that_a_table_has_then() -> None:
    query = joined("CLICKS C LEFT JOIN USERS U ON C.USER = U.ID", "C.USER, CITY, U.ROWTIME AS T, U.ROWOFFSET AS O")
    inputs = (
        row("users", "bob", 2, CITY="Bonn"),
        row("clicks", "ann", 10, PAGE="p"),
        row("users", "ann", 12, CITY="Rom"),
        row("clicks", "ann", 11, PAGE="q"),
        row("users", "ann", 13),
        row("clicks", "ann", 14, PAGE="r"),
    )
    assert results(query, *inputs) == [
        ("ann", {"CITY": None, "T": None, "O": None}, 10),
        ("ann", {"CITY": "Rom", "T": 12, "O": 1}, 11),
        ("ann", {"CITY": None, "T": None, "O": None}, 14),
    ]


def test_a_streams_other_column_finds_a_tables_row() -> None:
    query = joined("CLICKS C JOIN CITIES ON C.PAGE = CITIES.ID", "CITIES.ID, LAND, USER, CITIES.ROWTIME AS T")
    inputs = row("cities", "Rom", 7, LAND="it"), row("clicks", "ann", 3, PAGE="Rom"), row("clicks", "ann", 4)
    assert results(query, *inputs) == [("Rom", {"LAND": "it", "USER": "ann", "T": 7}, 3)]


def test_tables_are_joined_by_key_and_deletions_are_told_where_something_was() -> None:
    inputs = (
        row("users", "ann", 1, CITY="Rom"),
        row("pets", "ann", 2, NAME="rex"),
        row("pets", "bob", 3, NAME="tim"),
        row("users", "ann", 4),
        row("pets", "ann", 5),
        row("pets", "zoe", 6),
    )
    assert results(joined("USERS U JOIN PETS P ON U.ID = P.ID", "U.ID, CITY, NAME", "TABLE"), *inputs) == [
        ("ann", {"CITY": "Rom", "NAME": "rex"}, 2),
        ("ann", None, 4),
    ]
    full = joined("USERS U FULL OUTER JOIN PETS P ON U.ID = P.ID", "ROWKEY AS ID, CITY, NAME", "TABLE")
    assert results(full, *inputs) == [
        ("ann", {"CITY": "Rom", "NAME": None}, 1),
        ("ann", {"CITY": "Rom", "NAME": "rex"}, 2),
        ("bob", {"CITY": None, "NAME": "tim"}, 3),
        ("ann", {"CITY": None, "NAME": "rex"}, 4),
        ("ann", None, 5),
    ]


FOREIGN = (
    row("users", "ann", 1, CITY="Rom"),
    row("cities", "Rom", 2, LAND="it"),
    row("users", "bob", 3, CITY="Rom"),
    row("cities", "Rom", 4, LAND="IT"),
    row("users", "ann", 5, CITY=None),
    row("users", "bob", 6),
)


def test_a_foreign_key_finds_the_other_tables_row_and_hears_of_its_changes() -> None:
    query = joined("USERS U JOIN CITIES C ON U.CITY = C.ID", "U.ID, LAND", "TABLE")
    assert results(query, *FOREIGN) == [
        ("ann", {"LAND": "it"}, 2),
        ("bob", {"LAND": "it"}, 3),
        ("ann", {"LAND": "IT"}, 4),
        ("bob", {"LAND": "IT"}, 4),
        ("ann", None, 5),
        ("bob", None, 6),
    ]
    left = joined("USERS U LEFT JOIN CITIES C ON UCASE(U.CITY) = C.ID", "U.ID, LAND", "TABLE")
    assert results(left, FOREIGN[0], row("cities", "ROM", 2, LAND="it"), FOREIGN[4]) == [
        ("ann", {"LAND": None}, 1),
        ("ann", {"LAND": "it"}, 2),
        ("ann", {"LAND": None}, 5),
    ]


def test_behind_a_foreign_key_join_the_left_tables_key_is_joined_on() -> None:
    clause = "USERS U JOIN CITIES C ON U.CITY = C.ID LEFT JOIN PETS P ON U.ID = P.ID"
    inputs = (*FOREIGN[:2], row("pets", "ann", 3, NAME="rex"), FOREIGN[3])
    assert results(joined(clause, "U.ID, LAND, NAME", "TABLE"), *inputs) == [
        ("ann", {"LAND": "it", "NAME": None}, 2),
        ("ann", {"LAND": "it", "NAME": "rex"}, 3),
        ("ann", {"LAND": "IT", "NAME": "rex"}, 4),
    ]
    moved = refusal(joined(clause.replace("U.ID =", "C.ID ="), "U.ID, LAND", "TABLE"))
    assert "on the TABLE's key column ID instead of C.ID" in moved


def test_several_joins_are_made_from_left_to_right() -> None:
    query = joined(
        f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER = B.USER LEFT JOIN USERS U ON B.USER = U.ID "
        "JOIN CITIES ON U.CITY = CITIES.ID",
        "CITIES.ID AS CITY, C.USER, ITEM, LAND",
    )
    places = row("cities", "Rom", 1, LAND="it"), row("users", "ann", 1, CITY="Rom")
    assert results(query, *places, *CLICKED) == [("Rom", {"C_USER": "ann", "ITEM": "ink", "LAND": "it"}, 15)]


def test_any_of_the_columns_that_several_joins_make_equal_can_be_the_key() -> None:
    clause = "USERS U JOIN CITIES C ON U.ID = C.ID LEFT JOIN PETS P ON C.ID = P.ID"
    query = joined(clause, "P.ID, CITY, NAME", "TABLE")
    inputs = row("users", "a", 1, CITY="x"), row("cities", "a", 2, LAND="l"), row("pets", "a", 3, NAME="n")
    assert results(query, *inputs) == [
        ("a", {"CITY": "x", "NAME": None}, 2),
        ("a", {"CITY": "x", "NAME": "n"}, 3),
    ]
    assert "the join expressions U.ID, C.ID or P.ID in" in refusal(joined(clause, "CITY, NAME", "TABLE"))


def test_behind_a_join_come_conditions_groups_windows_and_table_functions() -> None:
    clause = f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER = B.USER"
    inputs = (*CLICKED[:2], row("buys", "ann", 17, ITEM="cap", N=5), row("buys", "ann", 18, ITEM="no", N=0))
    assert results(joined(f"{clause} WHERE B.N > C.N", "C.USER, ITEM"), *inputs) == [
        ("ann", {"ITEM": "ink"}, 15),
        ("ann", {"ITEM": "cap"}, 17),
    ]
    grouped = joined(f"{clause} GROUP BY C.USER", "C.USER, COUNT(*) AS N, SUM(B.N) AS T", "TABLE")
    assert results(grouped, *inputs)[-1] == ("ann", {"N": 3, "T": 7}, 18)
    windowed = joined(f"{clause} WINDOW TUMBLING (SIZE 8 MILLISECONDS) GROUP BY PAGE", "PAGE, COUNT(*) AS N", "TABLE")
    assert [value for _, value, _ in results(windowed, *inputs)] == [{"N": 1}, {"N": 1}, {"N": 2}]
    exploded = joined(clause, "C.USER, EXPLODE(ARRAY[PAGE, ITEM]) AS X")
    assert [value for _, value, _ in results(exploded, *CLICKED)] == [{"X": "p"}, {"X": "ink"}]
    assert results(joined(f"{clause} PARTITION BY ITEM", "ITEM, PAGE"), *CLICKED) == [("ink", {"PAGE": "p"}, 15)]


def test_a_tables_condition_deletes_joined_rows_that_cease_to_hold() -> None:
    query = joined("USERS U JOIN PETS P ON U.ID = P.ID WHERE AGE > 3", "U.ID, AGE, NAME", "TABLE")
    ages = [row("users", "a", at, AGE=age) for at, age in enumerate((1, 5, 2, 2))]
    assert results(query, row("pets", "a", NAME="n"), *ages) == [("a", {"AGE": 5, "NAME": "n"}, 1), ("a", None, 2)]


def test_all_inputs_are_read_in_their_order_and_what_queries_wrote_behind_them() -> None:
    text = "CREATE STREAM BIG AS SELECT USER, ITEM FROM BUYS WHERE N > 1;"
    query = joined("BIG LEFT JOIN USERS U ON BIG.USER = U.ID", "BIG.USER, ITEM, CITY")
    inputs = (
        row("buys", "ann", 1, ITEM="a", N=2),
        row("users", "ann", 2, CITY="Rom"),
        row("buys", "ann", 3, ITEM="b", N=3),
    )
    assert [value for _, value, _ in results(text + query, *inputs)] == [
        {"ITEM": "a", "CITY": "Rom"},
        {"ITEM": "b", "CITY": "Rom"},
    ]


def test_keys_of_two_formats_are_brought_into_one() -> None:
    text = (
        "CREATE STREAM K (ID INT KEY, V STRING) WITH (KAFKA_TOPIC='k', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');"
        "CREATE STREAM J (ID INT KEY, W STRING) WITH (KAFKA_TOPIC='j', KEY_FORMAT='JSON', VALUE_FORMAT='DELIMITED');"
        "CREATE TABLE T (ID INT PRIMARY KEY, X STRING) WITH (KAFKA_TOPIC='t', KEY_FORMAT='JSON', VALUE_FORMAT='JSON');"
        "CREATE TABLE S (ID INT PRIMARY KEY, Y STRING) WITH (KAFKA_TOPIC='s', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');"
    )
    inputs = (
        row("t", 1, X="x"),
        row("s", 1, Y="y"),
        row("k", 1, V="v"),
        {"topic": "j", "key": 1, "value": "w", "timestamp": 0},
    )
    streams = joined(f"K JOIN J {WITHIN} ON K.ID = J.ID JOIN T ON J.ID = T.ID", "K.ID, V, W, X")
    assert results(text + streams, *inputs) == [(1, {"V": "v", "W": "w", "X": "x"}, 0)]
    tables = joined("T JOIN S ON T.ID = S.ID", "T.ID, X, Y", "TABLE")
    assert results(text + tables, *inputs) == [(1, {"X": "x", "Y": "y"}, 0)]


REFUSED = {
    f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER = B.N": "types don't match. Got C.USER{STRING} = B.N{INTEGER}.",
    f"CLICKS C JOIN BUYS B {WITHIN} ON B.N = C.USER": "types don't match. Got B.N{INTEGER} = C.USER{STRING}.",
    "CLICKS C JOIN BUYS B ON C.USER = B.USER": "Stream-Stream joins must have a WITHIN clause specified.",
    f"CLICKS C JOIN USERS U {WITHIN} ON C.USER = U.ID": "provided for a Stream-Table join. These joins are not windowed.",
    f"USERS U JOIN PETS P {WITHIN} ON U.ID = P.ID": "provided for a Table-Table join. These joins are not windowed.",
    f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER > B.USER": "Only equality join criteria is supported.",
    f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER": "Unsupported join expression: C.USER",
    f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER = B.USER AND C.N = B.N": (
        "joins on multiple conditions are not yet supported. Got ((C.USER = B.USER) AND (C.N = B.N))."
    ),
    f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER = 'x'": (
        "Invalid comparison expression ''x'' in join '(C.USER = 'x')'. Each side of the join comparision must contain "
        "references from exactly one source."
    ),
    f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER = C.PAGE": (
        "not the same source. Left side references `C` and right references `C`"
    ),
    f"CLICKS C JOIN BUYS B {WITHIN} ON USER = B.USER": "Column 'USER' is ambiguous. Could be C.USER or B.USER.",
    f"CLICKS C JOIN BUYS B {WITHIN} ON C.NOPE = B.USER": "JOIN ON column 'C.NOPE' cannot be resolved.",
    f"CLICKS C JOIN CLICKS D {WITHIN} ON C.USER = D.USER": (
        "Can not join 'CLICKS' to 'CLICKS': self joins are not yet supported."
    ),
    f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER = B.USER JOIN BUYS E {WITHIN} ON C.USER = E.USER": (
        "N-way joins do not support multiple occurrences of the same source. Source: 'BUYS'."
    ),
    f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER = B.USER JOIN GIFTS G {WITHIN} ON C.USER = B.USER": (
        "A join criteria is expected to reference the source (`G`) in the FROM clause, instead the right source "
        "references `B` and the left source references `C`"
    ),
    f"CLICKS C JOIN BUYS B {WITHIN} ON G.USER = B.USER JOIN GIFTS G {WITHIN} ON C.USER = G.USER": (
        "neither source in the join is the FROM source or included in a previous JOIN"
    ),
    "USERS U JOIN CLICKS C ON U.ID = C.USER": (
        "table-stream joins are not supported; only stream-table joins. Got USERS [INNER] JOIN CLICKS."
    ),
    "CLICKS C JOIN USERS U ON C.USER = U.CITY": (
        "stream-table joins require to join on the table's primary key. Got C.USER = U.CITY."
    ),
    "CLICKS C FULL JOIN USERS U ON C.USER = U.ID": (
        "full-outer join not supported for stream-table join. Got CLICKS [FULL] OUTER JOIN USERS."
    ),
    "USERS U JOIN PETS P ON U.ID = P.NAME": (
        "table-table joins require to join on the primary key of the right input table. Got U.ID = P.NAME."
    ),
    "USERS U FULL JOIN PETS P ON U.CITY = P.ID": (
        "full-outer join not supported for foreign-key table-table join. Got USERS [FULL] OUTER JOIN PETS."
    ),
    "USERS U RIGHT JOIN PETS P ON U.CITY = P.ID": "RIGHT OUTER JOIN on a foreign key is not supported",
    "USERS U JOIN PETS P ON U.ID = P.ID JOIN CITIES C ON U.CITY = C.ID": (
        "foreign-key table-table joins are not supported as part of n-way joins. Got U.CITY = C.ID."
    ),
}


@pytest.mark.parametrize("clause", REFUSED)
def test_what_cannot_be_joined_is_refused_in_ksqldbs_words(clause: str) -> None:
    streams = re.match("CLICKS", clause) is not None
    assert REFUSED[clause] in refusal(joined(clause, made="STREAM" if streams else "TABLE"))


def test_a_foreign_join_names_the_key_columns_that_a_projection_lacks() -> None:
    assert refusal(joined("USERS U JOIN CITIES C ON U.CITY = C.ID", "LAND, AGE", "TABLE")) == (
        "Primary key column missing in projection. For foreign-key table-table joins, the projection must include all "
        "primary key columns from the left input table (`USERS`). Missing column: `ID`."
    )


def test_a_topic_that_two_sources_of_a_join_read_is_refused() -> None:
    text = "CREATE STREAM AGAIN (USER STRING KEY, ITEM STRING) WITH (KAFKA_TOPIC='users', FORMAT='JSON');"
    said = refusal(text + joined("AGAIN A JOIN USERS U ON A.USER = U.ID"))
    assert said == "Invalid topology: Topic users has already been registered by another source."


def test_sources_of_a_join_need_as_many_partitions_each() -> None:
    query = joined(f"CLICKS C JOIN BUYS B {WITHIN} ON C.USER = B.USER", "C.USER, ITEM")
    with pytest.raises(Refused) as refused:
        run_case(STREAMS + query, (), [{"name": "clicks", "partitions": 3}, {"name": "others", "partitions": 3}])
    assert str(refused.value) == (
        "Can't join `C` with `B` since the number of partitions don't match. `C` partitions = 3; `B` partitions = 4. "
        "Please repartition either one so that the number of partitions match."
    )
    again = "CREATE STREAM MORE WITH (PARTITIONS=3) AS SELECT * FROM BUYS;" + joined(
        f"CLICKS C JOIN MORE M {WITHIN} ON C.USER = M.USER", "C.USER, ITEM"
    )
    run_case(STREAMS + again, (), [{"name": "clicks", "partitions": 3}])
    narrow = "CREATE STREAM NARROW (USER STRING KEY) WITH (KAFKA_TOPIC='n', FORMAT='JSON', PARTITIONS=2);"
    query = joined(f"CLICKS JOIN NARROW {WITHIN} ON CLICKS.USER = NARROW.USER")
    assert "`NARROW` partitions = 2." in refusal(narrow + query)


def test_a_key_that_holds_a_map_is_refused() -> None:
    text = "".join(
        f"CREATE STREAM {name} (ID INT KEY, M MAP<STRING, INT>) WITH (KAFKA_TOPIC='{name}', FORMAT='JSON');"
        for name in ("X", "Y")
    )
    assert "Map keys, including types that contain maps" in refusal(text + joined(f"X JOIN Y {WITHIN} ON X.M = Y.M"))


def test_windowed_tables_are_no_sources_of_queries_that_write_topics() -> None:
    counts = "".join(
        f"CREATE TABLE {name} AS SELECT USER, COUNT(*) AS N FROM {source} {window} GROUP BY USER;"
        for name, source, window in (
            ("CLICKED", "CLICKS", "WINDOW TUMBLING (SIZE 10 MILLISECONDS)"),
            ("BOUGHT", "BUYS", "WINDOW TUMBLING (SIZE 10 MILLISECONDS)"),
            ("GIVEN", "GIFTS", "WINDOW SESSION (10 MILLISECONDS)"),
            ("EVER", "BUYS", ""),
        )
    )
    like = joined("CLICKED C JOIN BOUGHT B ON C.USER = B.USER", "C.USER, C.N, B.N", "TABLE")
    assert refusal(counts + like) == "KSQL does not support persistent queries on windowed tables."
    assert "Incompatible windowed sources.\nLeft source: TUMBLING\nRight source: SESSION" in refusal(
        counts + joined("CLICKED C JOIN GIVEN G ON C.USER = G.USER", made="TABLE")
    )
    assert refusal(counts + joined("CLICKED C JOIN EVER E ON C.USER = E.USER", made="TABLE")) == (
        "Can not join windowed source to non-windowed source.\n`C` is TUMBLING windowed\n`E` is not windowed"
    )


def test_keys_with_schemas_are_joined() -> None:
    text = (
        "CREATE STREAM K (ID INT KEY, V STRING) WITH (KAFKA_TOPIC='k', FORMAT='AVRO');"
        "CREATE STREAM J (ID INT KEY, W STRING) WITH (KAFKA_TOPIC='j', FORMAT='JSON_SR');"
        "CREATE TABLE T (ID INT PRIMARY KEY, X STRING) WITH (KAFKA_TOPIC='t', FORMAT='AVRO');"
        "CREATE TABLE S (ID INT PRIMARY KEY, F INT) WITH (KAFKA_TOPIC='s', FORMAT='PROTOBUF');"
    )
    given = row("t", 1, X="x"), row("k", 1, V="v"), row("j", 1, W="w"), {**row("s", None, F=1), "key": {"ID": 7}}
    streams = joined(f"K JOIN J {WITHIN} ON K.ID = J.ID JOIN T ON J.ID = T.ID", "K.ID, V, W, X")
    assert results(text + streams, *given) == [(1, {"V": "v", "W": "w", "X": "x"}, 0)]
    tables = joined("S JOIN T ON S.F = T.ID", "S.ID, X", "TABLE")
    assert results(text + tables, *given) == [({"S_ID": 7}, {"X": "x"}, 0)]


WINDOWS = {
    "ten": "WINDOW_TYPE='TUMBLING', WINDOW_SIZE='10 SECONDS'",
    "twenty": "WINDOW_TYPE='TUMBLING', WINDOW_SIZE='20 SECONDS'",
    "hops": "WINDOW_TYPE='HOPPING', WINDOW_SIZE='10 SECONDS'",
    "sessions": "WINDOW_TYPE='SESSION'",
}
MOVED = "Implicit repartitioning of windowed sources is not supported."


def windowed_streams(left: str, right: str, formats: tuple[str, str]) -> str:
    made = zip("AB", (left, right), formats, strict=True)
    return "".join(
        f"CREATE STREAM {name} (K INT KEY, V INT) WITH (KAFKA_TOPIC='{name.lower()}', KEY_FORMAT='{format_}', "
        f"VALUE_FORMAT='JSON', {WINDOWS[window]});"
        for name, window, format_ in made
    )


@pytest.mark.parametrize(
    ("formats", "key"),
    [
        (("KAFKA", "KAFKA"), 1),
        (("AVRO", "AVRO"), 1),
        (("JSON_SR", "JSON_SR"), 1),
        (("PROTOBUF", "PROTOBUF"), {"K": 1}),
    ],
)
def test_windowed_streams_that_have_their_key_are_joined_whatever_its_format(
    formats: tuple[str, str], key: object
) -> None:
    text = windowed_streams("ten", "ten", formats) + joined("A JOIN B WITHIN 1 HOUR ON A.K = B.K", "A.K, A.V, B.V")
    window = {"start": 10_000, "end": 20_000, "type": "time"}
    given = [{"topic": topic, "key": key, "value": {"V": 1}, "window": window} for topic in "ab"]
    late = {**given[1], "window": {"start": 20_000, "end": 30_000, "type": "time"}}
    (found,) = run_case(text, [*given, late])
    assert found.value == {"A_V": 1, "B_V": 1}
    assert found.window is not None and (found.window.start, found.window.end) == (10_000, 20_000)


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ("ten", "twenty", MOVED),
        ("twenty", "ten", MOVED),
        ("ten", "hops", MOVED),
        ("ten", "sessions", "Incompatible windowed sources."),
    ],
)
def test_streams_of_unlike_windows_are_not_joined(left: str, right: str, said: str) -> None:
    text = windowed_streams(left, right, ("KAFKA", "KAFKA"))
    assert said in refusal(text + joined("A JOIN B WITHIN 1 HOUR ON A.K = B.K"))
    assert said in refusal(text + joined("A LEFT JOIN B WITHIN 1 HOUR ON B.K = A.K"))


@pytest.mark.parametrize(
    ("formats", "on"), [(("KAFKA", "JSON"), "B.K"), (("KAFKA", "KAFKA"), "B.V"), (("AVRO", "AVRO"), "B.V")]
)
def test_windowed_streams_are_not_moved_to_another_key_or_format(formats: tuple[str, str], on: str) -> None:
    text = windowed_streams("ten", "ten", formats)
    assert MOVED in refusal(text + joined(f"A JOIN B WITHIN 1 HOUR ON A.K = {on}"))
