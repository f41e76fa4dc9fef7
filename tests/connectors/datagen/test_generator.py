"""The generator makes the same rows for the same seed, at a rate, and goes on exactly where it was."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ottla.connect import converters, discover
from ottla.connectors import CONNECTORS
from ottla.connectors.datagen import GeneratorSourceConnector, GeneratorSourceTask
from tests.connectors.contexts import Store, polled, started, until

FAST = {"kafka.topic": "t", "max.interval": "0", "start.time.ms": "1700000000000"}


def generator(kind: str, store: Store | None = None, **more: str) -> GeneratorSourceTask:
    return started(GeneratorSourceTask(), {**FAST, "quickstart": kind, **more}, store)


def rows(kind: str, count: int, **more: str) -> list[Any]:
    return until(generator(kind, iterations=str(count), **more), lambda found: len(found) >= count)


def shown(records: list[Any]) -> list[tuple[str, str]]:
    return [(each.key, str(each.value)) for each in records]


@pytest.mark.parametrize("kind", ["orders", "users", "pageviews", "clicks"])
def test_a_seed_says_every_row(kind: str) -> None:
    once, again, other = rows(kind, 50), rows(kind, 50), rows(kind, 50, **{"random.seed": "1"})
    assert shown(once) == shown(again) != shown(other)
    assert len(set(shown(once))) > 40


def test_a_task_goes_on_with_the_row_behind_the_last_stored_one() -> None:
    store, found = Store(), []
    for _ in range(3):  # each task is killed after its first poll
        records = polled(generator("orders", store, iterations="6000"))[:700]
        store.take(records)
        found += records
    assert shown(found) == shown(rows("orders", 2100))
    assert [each.value.get("orderid") for each in found] == list(range(2100))


def test_time_goes_on_too_where_the_first_start_has_set_it() -> None:
    store = Store()
    task = generator("orders", store, rate="100000", **{"start.time.ms": "-1"})
    first = until(task, bool, store)
    second = until(generator("orders", store, rate="100000", **{"start.time.ms": "-1"}), bool)
    begin = first[0].value.get("ordertime")
    assert second[0].value.get("ordertime") == begin + int(len(first) * 1000 / 100000)


def test_keys_of_all_kinds_find_their_users() -> None:
    users = {each.key for each in rows("users", 20, **{"users.count": "20"})}
    assert len(users) == 20
    for kind in ("orders", "pageviews", "clicks"):
        assert {each.value.get("userid") for each in rows(kind, 300, **{"users.count": "20"})} <= users


def test_no_two_tasks_make_the_same_orders() -> None:
    connector = GeneratorSourceConnector()
    connector.start({**FAST, "quickstart": "orders", "iterations": "10"})
    made = [
        each
        for props in connector.task_configs(2)
        for each in until(started(GeneratorSourceTask(), props), lambda found: len(found) == 10)
    ]
    assert len({each.key for each in made}) == 20


def test_the_rate_is_kept_and_the_end_is_an_end() -> None:
    task = generator("clicks", rate="200", iterations="40")
    begin = time.monotonic()
    records = until(task, lambda found: len(found) == 40)
    assert time.monotonic() - begin > 0.15  # 39 gaps of 5 ms
    task.stop()
    assert len(records) == 40 and task.poll() is None


def test_rows_are_values_of_their_schema() -> None:
    for kind in ("orders", "users", "pageviews", "clicks"):
        json = converters.JsonConverter()
        json.configure({"schemas.enable": "false"}, is_key=False)
        record = rows(kind, 1)[0]
        assert json.from_connect("t", record.value_schema, record.value).startswith(b"{")


def test_confluents_class_name_and_keys_are_known() -> None:
    props = {
        "connector.class": "io.confluent.kafka.connect.datagen.DatagenConnector",
        "kafka.topic": "t",
        "quickstart": "pageviews",
        "max.interval": "100",
        "iterations": "10",
    }
    cls = discover(more=CONNECTORS).connector(props["connector.class"]).cls
    assert cls is GeneratorSourceConnector
    assert not [error for each in cls().validate(props).values() for error in each.errors]


def test_what_cannot_be_made_up_is_refused_by_its_key() -> None:
    found = GeneratorSourceConnector().validate({"kafka.topic": "", "quickstart": "ratings", "schema.string": "{}"})
    assert {name for name, each in found.items() if each.errors} == {"kafka.topic", "quickstart", "schema.string"}
