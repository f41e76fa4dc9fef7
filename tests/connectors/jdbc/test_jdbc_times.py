"""Times at the edges: infinities, years beyond `datetime`'s, 24:00, and clocks that are put forward and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.connect.converters.json import JsonConverter
from ottla.connectors.jdbc.dialects import Dialect
from tests.connectors.contexts import Store
from tests.connectors.jdbc.conftest import TestDatabase
from tests.connectors.jdbc.worker import read_all, source_tasks

DAY_MS = 86_400_000
BC = -63517780800000
"""0044-03-15 12:00 BC in PostgreSQL's calendar, in milliseconds."""

FAR: tuple[tuple[str, str, int], ...] = (
    ("TIMESTAMP", "infinity", 9223372036825200000),
    ("TIMESTAMP", "-infinity", -9223372036832400000),
    ("TIMESTAMPTZ", "infinity", 9223372036825200000),
    ("TIMESTAMPTZ", "-infinity", -9223372036832400000),
    ("TIMESTAMP", "0044-03-15 12:00:00 BC", BC),
    ("TIMESTAMPTZ", "0044-03-15 12:00:00+00 BC", BC),
    ("TIMESTAMP", "10000-01-01 00:00:00", 253402300800000),
    ("TIMESTAMPTZ", "10000-01-01 00:00:00.5+00", 253402300800500),
    ("TIMESTAMP", "294276-12-31 23:59:59.999999", 9224318015999999),
    ("TIMESTAMP", "4713-01-01 00:00:00 BC", -210863520000000),
    ("DATE", "infinity", (1 << 31) - 1),
    ("DATE", "-infinity", -(1 << 31)),
    ("DATE", "0044-03-15 BC", BC // DAY_MS),
    ("DATE", "10000-01-01", 2932897),
    ("DATE", "5874897-12-31", 2145042905),
    ("TIME", "24:00", DAY_MS),
)


def written(schema: Any, value: Any) -> str:
    """Return a value as the JSON converter writes it."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    return (converter.from_connect("t", schema, value) or b"").decode()


@pytest.mark.parametrize(("type_", "literal", "number"), FAR)
def test_times_that_python_has_not_are_read_as_the_numbers_that_pgjdbc_has(
    postgres: TestDatabase, type_: str, literal: str, number: int
) -> None:
    postgres.run(f"CREATE TABLE t (id INTEGER, c {type_} NOT NULL, n {type_}[])")
    postgres.run(f"INSERT INTO t VALUES (1, CAST(:x AS {type_}), ARRAY[CAST(:x AS {type_})])", x=literal)
    (task,) = source_tasks({**postgres.props, "mode": "bulk"})
    (found,) = task.poll()
    found.value.validate()
    assert written(found.value_schema, found.value) == f'{{"id":1,"c":{number},"n":[{number}]}}'


@pytest.mark.parametrize(("zone", "hours"), [("UTC", 0), ("Asia/Tokyo", 9)])
def test_a_year_that_only_one_zone_of_two_has_is_read(postgres: TestDatabase, zone: str, hours: int) -> None:
    postgres.run("CREATE TABLE t (at TIMESTAMP)")
    postgres.run("INSERT INTO t VALUES ('0001-01-01')")
    (task,) = source_tasks({**postgres.props, "mode": "bulk", "db.timezone": zone})
    (found,) = task.poll()
    tokyo_mean_time = 18 * 60 + 59 if hours else 0
    expected = -62135596800000 - hours * 3_600_000 - tokyo_mean_time * 1000
    assert written(found.value_schema, found.value) == f'{{"at":{expected}}}'


@pytest.mark.parametrize(
    ("granularity", "numbers"),
    [
        ("micros_long", ["-9223372036854775808", str(BC * 1000), "253402300800000000"]),
        ("nanos_string", ["-9223372036854775808", "-9223372036854775808", "9223372036854775807"]),
        (
            "micros_iso_datetime_string",
            ["-292275055-05-16T23:00:00.000000", "-0043-03-15T12:00:00.000000", "+10000-01-01T00:00:00.000000"],
        ),
    ],
)
def test_far_times_keep_to_the_form_that_granularity_asks_for(
    postgres: TestDatabase, granularity: str, numbers: list[str]
) -> None:
    postgres.run("CREATE TABLE t (id SERIAL, at TIMESTAMP)")
    for literal in ("-infinity", "0044-03-15 12:00:00 BC", "10000-01-01"):
        postgres.run("INSERT INTO t (at) VALUES (CAST(:x AS TIMESTAMP))", x=literal)
    (task,) = source_tasks({**postgres.props, "mode": "incrementing", "timestamp.granularity": granularity})
    assert [str(each.value["at"]) for each in task.poll()] == numbers


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMPTZ"])
@pytest.mark.parametrize(
    ("mode", "zone"),
    [
        ("timestamp", "Europe/Vienna"),
        ("timestamp+incrementing", "UTC"),
        # what the mode and what the zone settles is in different places: each of both is in every run
        pytest.param("timestamp", "UTC", marks=pytest.mark.slow),
        pytest.param("timestamp+incrementing", "Europe/Vienna", marks=pytest.mark.slow),
    ],
)
def test_reading_by_time_goes_on_behind_each_far_time(postgres: TestDatabase, type_: str, zone: str, mode: str) -> None:
    postgres.run(f"CREATE TABLE t (id SERIAL, at {type_} NOT NULL)")
    literals = ["-infinity", "4000-05-01 10:00:00.25 BC", "0044-03-15 BC", "2020-01-01", "10000-01-01", "infinity"]
    for literal in literals:
        postgres.run(f"INSERT INTO t (at) VALUES (CAST(:x AS {type_}))", x=literal)
    store, seen = Store(), []
    props = {**postgres.props, "mode": mode, "timestamp.column.name": "at", "db.timezone": zone}
    if mode != "timestamp":
        props["incrementing.column.name"] = "id"
    for _ in range(6):
        (task,) = source_tasks(props, store)
        for each in (task.poll() or [])[:1]:
            store.take([each])
            seen.append(each.value["id"])
        task.stop()
    assert seen == [1, 2, 3, 4], "what is to come is not read yet, and nothing twice"


GAP = ("01:59", "02:00", "02:30", "02:45", "03:00", "03:15", "03:30", "03:45")


@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        ("timestamp", 1),
        ("timestamp+incrementing", 3),
        # the same, for two databases each: what is kept does not depend on the mode
        pytest.param("timestamp", 3, marks=pytest.mark.slow),
        pytest.param("timestamp+incrementing", 1, marks=pytest.mark.slow),
    ],
)
def test_rows_of_times_that_a_clock_never_showed_are_read_once(database: TestDatabase, mode: str, kept: int) -> None:
    serial = "SERIAL" if database.has_schemas else "INTEGER"
    database.run(f"CREATE TABLE t (id {serial} PRIMARY KEY, at TIMESTAMP NOT NULL)")
    for clock in GAP:
        database.run("INSERT INTO t (at) VALUES (:x)", x=datetime.fromisoformat(f"2024-03-31T{clock}"))
    store, seen = Store(), []
    props = {**database.props, "mode": mode, "timestamp.column.name": "at", "db.timezone": "Europe/Vienna"}
    if mode != "timestamp":
        props["incrementing.column.name"] = "id"
    for _ in range(len(GAP) + 1):
        (task,) = source_tasks(props, store)
        records = (task.poll() or [])[:kept]
        store.take(records)
        seen += [each.value["id"] for each in records]
        task.stop()
    assert seen == list(range(1, len(GAP) + 1))


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_a_clock_that_is_put_back_hides_no_rows_behind_those_of_its_first_hour(
    postgres: TestDatabase, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.run("CREATE TABLE t (id SERIAL PRIMARY KEY, at TIMESTAMP NOT NULL)")
    clock = [datetime(2024, 10, 27, 0, 50, tzinfo=UTC)]  # 02:50 in Vienna, for the first time
    monkeypatch.setattr("ottla.connectors.jdbc.dialects.PostgresDialect.now", lambda *_: clock[0])
    props = {**postgres.props, "mode": mode, "timestamp.column.name": "at", "db.timezone": "Europe/Vienna"}
    if mode != "timestamp":
        props["incrementing.column.name"] = "id"
    store = Store()
    (task,) = source_tasks(props, store)
    insert = "INSERT INTO t (at) VALUES (CAST(:x AS TIMESTAMP))"
    seen = []
    for hour, minute, local in ((0, 50, "02:40"), (1, 5, "02:05"), (1, 30, "02:29"), (2, 1, "03:00")):
        postgres.run(insert, x=f"2024-10-27 {local}")
        clock[0] = datetime(2024, 10, 27, hour, minute, tzinfo=UTC)
        seen += [each.value["id"] for each in read_all(task, store)]
    assert sorted(seen) == [1, 2, 3, 4]


def test_only_the_hour_before_a_clock_is_put_back_is_held_back() -> None:
    from zoneinfo import ZoneInfo

    dialect = Dialect(zone=ZoneInfo("Europe/Vienna"), quote=True)

    def end(day: int, hour: int, minute: int) -> str:
        return str(dialect.moment_end(datetime(2024, 10, day, hour, minute, tzinfo=UTC), zoned=False))

    assert [end(26, 23, 59), end(27, 0, 30), end(27, 1, 30)] == [
        "2024-10-27 01:59:00",
        "2024-10-27 01:30:00",
        "2024-10-27 02:30:00",
    ]
