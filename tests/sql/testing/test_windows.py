"""Windows: which a row counts in, what is told when, windowed topics as sources, what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from ottla.sql import rules
from ottla.sql.testing import Refused, run_case

STREAM = "CREATE STREAM S (K STRING KEY, V INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
WINDOWED = STREAM.replace("'JSON'", "'JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='10 SECONDS'")


def at(timestamp: int, key: str = "k", window: tuple[int, int] | None = None) -> Mapping[str, object]:
    found: dict[str, object] = {"topic": "s", "key": key, "value": {"V": 1}, "timestamp": timestamp}
    return found if window is None else {**found, "window": {"start": window[0], "end": window[1], "type": "time"}}


def told(window: str, *inputs: Mapping[str, object], emit: str = "CHANGES") -> list[tuple[object, object, int, object]]:
    """(key, count or None for a deletion, time, window's bounds) of each result."""
    query = f"CREATE TABLE R AS SELECT K, COUNT(*) AS N FROM S WINDOW {window} GROUP BY K EMIT {emit};"
    found = [each for each in run_case(STREAM + query, inputs) if each.topic == "R"]
    return [
        (
            each.key,
            each.value and each.value["N"],  # type: ignore[index]
            each.timestamp,
            each.window and (each.window.start, each.window.end, each.window.type),
        )
        for each in found
    ]


def test_a_row_counts_in_every_window_that_holds_it_and_a_late_one_until_grace_is_over() -> None:
    assert told("TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS)", at(1), at(14_000), at(2), at(15_000), at(3)) == [
        ("k", 1, 1, (0, 10_000, "tumbling")),
        ("k", 1, 14_000, (10_000, 20_000, "tumbling")),
        ("k", 2, 2, (0, 10_000, "tumbling")),
        ("k", 2, 15_000, (10_000, 20_000, "tumbling")),
    ]
    assert told("HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS)", at(7_000)) == [
        ("k", 1, 7_000, (0, 10_000, "hopping")),
        ("k", 1, 7_000, (5_000, 15_000, "hopping")),
    ]


def test_windows_without_grace_take_late_rows_for_a_day_from_their_start() -> None:
    day = 86_400_000
    assert len(told("TUMBLING (SIZE 1 HOUR)", at(0), at(day - 1), at(1))) == 3
    assert len(told("TUMBLING (SIZE 1 HOUR)", at(0), at(day), at(1))) == 2


def test_a_session_that_grows_deletes_the_one_before() -> None:
    assert told("SESSION (10 SECONDS)", at(0), at(20_000), at(9_000), at(15_000)) == [
        ("k", 1, 0, (0, 0, "session")),
        ("k", 1, 20_000, (20_000, 20_000, "session")),
        ("k", None, 0, (0, 0, "session")),
        ("k", 2, 9_000, (0, 9_000, "session")),
        ("k", None, 9_000, (0, 9_000, "session")),
        ("k", None, 20_000, (20_000, 20_000, "session")),
        ("k", 4, 20_000, (0, 20_000, "session")),
    ]


def test_final_results_come_once_and_what_kafkas_store_would_have_dropped_never() -> None:
    """The times and results are those of Java's TopologyTestDriver (Kafka 4.3) for the same windows."""
    ten = "TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD {} MILLISECONDS)"
    assert told(ten.format(0), *map(at, (0, 5, 10, 15, 25)), at(31, "j"), at(3, "j"), emit="FINAL") == [
        ("k", 2, 5, (0, 10, "tumbling")),
        ("k", 2, 15, (10, 20, "tumbling")),
        ("k", 1, 25, (20, 30, "tumbling")),
    ]
    assert told(ten.format(2), *map(at, (0, 10, 11, 12, 13, 40, 55)), emit="FINAL") == [
        ("k", 1, 0, (0, 10, "tumbling")),
        ("k", 1, 40, (40, 50, "tumbling")),
    ]
    session = "SESSION ({} MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)"
    assert told(session.format(10), *map(at, (0, 5, 16, 40, 60)), emit="FINAL") == [
        ("k", 2, 5, (0, 5, "session")),
        ("k", 1, 16, (16, 16, "session")),
        ("k", 1, 40, (40, 40, "session")),
    ]
    assert told(session.format(60_000), *map(at, (0, 70_000, 200_000)), emit="FINAL") == [
        ("k", 1, 0, (0, 0, "session"))
    ]


def test_a_windowed_topic_gives_its_windows_bounds_and_keeps_them() -> None:
    text = WINDOWED + "CREATE STREAM R AS SELECT K, V, WINDOWSTART AS A, WINDOWEND AS B FROM S WHERE WINDOWSTART > 0;"
    (found,) = run_case(text, [at(12_000, window=(10_000, 20_000)), at(2_000, window=(0, 10_000))])
    assert found.value == {"V": 1, "A": 10_000, "B": 20_000}
    assert found.window is not None and (found.window.start, found.window.end) == (10_000, 20_000)


def test_a_group_without_windows_leaves_the_windows_and_the_key_keeps_them() -> None:
    rows = [at(12_000, window=(10_000, 20_000)), at(2_000, window=(0, 10_000))]
    (one, two) = run_case(WINDOWED + "CREATE TABLE R AS SELECT K, COUNT(*) AS N FROM S GROUP BY K;", rows)
    assert [(each.key, each.value, each.window) for each in (one, two)] == [
        ("k", {"N": 1}, None),
        ("k", {"N": 2}, None),
    ]
    found = run_case(WINDOWED + "CREATE STREAM R AS SELECT K, V FROM S PARTITION BY K;", rows)
    assert [(each.key, each.window and each.window.start) for each in found] == [("k", 10_000), ("k", 0)]


@pytest.mark.parametrize(
    ("made", "query", "message"),
    [
        (
            STREAM,
            "STREAM R AS SELECT * FROM S WINDOW TUMBLING (SIZE 1 HOUR)",
            "WINDOW clause requires a GROUP BY clause.",
        ),
        (
            STREAM,
            "TABLE R AS SELECT K, COUNT(*) FROM S WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY K HAVING WINDOWEND > 1",
            "Window bounds column WINDOWEND can only be used in the SELECT clause",
        ),
        (
            STREAM,
            "TABLE R AS SELECT K, MAX(WINDOWEND) FROM S WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY K",
            "can not be passed to aggregate functions.",
        ),
        (
            STREAM,
            "TABLE R AS SELECT K, COUNT(*) FROM S WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 1 HOUR) GROUP BY K",
            "must be no smaller than its window size plus the grace period. Got size=[3600000], grace=[82800000]",
        ),
        *(
            (STREAM, f"TABLE R AS SELECT K, COUNT(*) FROM S WINDOW {window} GROUP BY K", said)
            for window, said in (
                ("TUMBLING (SIZE 0 SECONDS)", "Window size (sizeMs) must be larger than zero."),
                ("SESSION (0 SECONDS)", "Gap time (inactivityGapMs) cannot be zero or negative."),
                ("HOPPING (SIZE 1 SECOND, ADVANCE BY 2 SECONDS)", "given advancement interval is: 2000 ms"),
                ("HOPPING (SIZE 1 SECOND, ADVANCE BY 0 SECONDS)", "given advancement interval is: 0 ms"),
                ("HOPPING (SIZE 10 DAYS, ADVANCE BY 1 MILLISECOND)", "Each record would be in 864000000 windows"),
                ("HOPPING (SIZE 20001 SECONDS, ADVANCE BY 1 SECOND)", "Windows may overlap 20000 times"),
                ("TUMBLING (SIZE 1 SECOND, GRACE PERIOD -1 SECONDS)", "Grace period must not be negative."),
            )
        ),
        (
            WINDOWED.replace("STREAM S", "TABLE S").replace("STRING KEY", "STRING PRIMARY KEY"),
            "TABLE R AS SELECT * FROM S",
            "KSQL does not support persistent queries on windowed tables.",
        ),
        *(
            (
                WINDOWED,
                f"STREAM R AS SELECT * FROM S PARTITION BY {by}",
                "Implicit repartitioning of windowed sources is",
            )
            for by in ("V", "NULL", "K + 'x'", "K, V")
        ),
        (
            WINDOWED.replace("K STRING KEY, ", ""),
            "STREAM R AS SELECT * FROM S",
            "Windowed sources require a key column.",
        ),
    ],
)
def test_what_windows_cannot_do_is_refused(made: str, query: str, message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)):
        run_case(f"{made} CREATE {query};", [])


def test_all_columns_of_a_join_of_windowed_streams_have_the_bounds_of_their_windows() -> None:
    """Behind the key of each, as in ksqlDB; a stream's own `*` has none, for no column of a result may have that name."""
    formats = "FORMAT='DELIMITED', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='5 SECONDS'"
    text = (
        f"CREATE STREAM L (V INT, K INT KEY) WITH (KAFKA_TOPIC='l', {formats});"
        f"CREATE STREAM R (W INT, K INT KEY) WITH (KAFKA_TOPIC='r', {formats});"
        "CREATE STREAM A AS SELECT * FROM L;"
        "CREATE STREAM B AS SELECT * FROM L JOIN R WITHIN 1 MINUTE ON L.K = R.K;"
    )
    window = {"start": 5000, "end": 10000, "type": "tumbling"}
    given = [
        {"topic": "l", "key": "1", "value": "2", "timestamp": 6000, "window": window},
        {"topic": "r", "key": "1", "value": "3", "timestamp": 7000, "window": window},
    ]
    found = run_case(text, given)
    assert [(record.topic, record.value) for record in found] == [("A", "2"), ("B", "5000,10000,2,1,5000,10000,3")]
    with rules.under(rules.FIRST):
        assert run_case(text, given)[1].value == "2,3,1"
