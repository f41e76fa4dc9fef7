"""What is masked is in nothing that the console tells; exports, a key over time, and searches in processes of their own."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import ConfigError, Millis, Offset
from ottla.console.records.masks import Masks, mask_rules
from ottla.sql import document_condition
from ottla.wire import Record
from tests.console.running import RunningConsole, running_console
from tests.server import Server, running_server
from tests.waiting import until

CARD, TOKEN, NAME = "4929-1111-2222-3333", "toksecret", "Ada Lovelace"
RULES = [
    {"topics": "pay*", "path": "value.card.number", "how": "last4"},
    {"topics": "pay*", "path": "value.people.name"},
    {"topics": "pay*", "path": "headers.token", "how": "hash"},
    {"topics": "secret-keys", "path": "key"},
]


def payment(number: int) -> dict[str, Any]:
    return {"id": number, "card": {"number": CARD, "kind": "visa"}, "people": [{"name": NAME, "age": 3}], "amount": 1.5}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("broker")) as found:
        asking = AdminClient({"bootstrap.servers": found.bootstrap})
        for each in asking.create_topics(
            [NewTopic("payments", 2), NewTopic("orders", 4), NewTopic("secret-keys", 1)]
        ).values():
            each.result()
        producer = Producer({"bootstrap.servers": found.bootstrap, "partitioner": "murmur2_random"})
        for number in range(20):
            producer.produce("payments", json.dumps(payment(number)), key=f"k{number}", headers={"token": TOKEN})
        producer.produce("payments", f"no json {CARD}", key="odd")
        for version in range(5):
            for key in range(8):
                producer.produce("orders", json.dumps({"version": version, "sum": "=1+1"}), key=f"o-{key}")
        producer.produce("secret-keys", "x", key=CARD)
        producer.flush()
        yield found


@pytest.fixture(scope="module")
def console(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    rules = tmp_path_factory.mktemp("console") / "masks.json"
    rules.write_text(json.dumps(RULES))
    with running_console(server.bootstrap, "--override", f"ottla.console.masks.file={rules}") as found:
        yield found


def rows(frames: list[Any]) -> list[Any]:
    return [row for frame in frames if frame["type"] == "rows" for row in frame["rows"]]


def test_what_is_masked_is_in_no_answer(console: RunningConsole) -> None:
    said = [
        json.dumps(console.scan(topic="payments")),
        json.dumps(console.scan(topic="payments", where="visa", **{"from": "oldest"})),
        json.dumps(console.scan(topic="payments", key="k3")),
        *(json.dumps(console.get(f"/topics/payments/records/{index}/0")) for index in range(2)),
        *(json.dumps(console.get(f"/topics/payments/records/{index}/0?decoder=hex")) for index in range(2)),
        *(
            console.ask("POST", "/api/c/cluster/export", {"topic": "payments", "format": kind}).body
            for kind in ("jsonl", "csv")
        ),
        str(parquet(console, topic="payments").to_pylist()),
        json.dumps(console.scan(topic="secret-keys")),
    ]
    for each in said:
        text = each.replace("\\u2022", "•")
        assert ("•••" in text or "e2 80 a2" in text) and CARD not in text and NAME not in text and TOKEN not in text, (
            text[:300]
        )
        assert CARD.encode().hex(" ") not in text and NAME.encode().hex(" ") not in text
    first = json.loads(rows(console.scan(topic="payments", where="value.id = 3"))[0]["value"]["text"])
    assert first["card"] == {"number": "•••3333", "kind": "visa"} and first["people"] == [{"name": "•••", "age": 3}]


@pytest.mark.parametrize(
    "where",
    [
        f"value.card.number = '{CARD}'",
        "value.card.number LIKE '4%'",
        "value.card IS NOT NULL",
        "value.people[1].name = 'x'",
        "LEN(value.card.`number`) > 3",
        "headers['token'] = 'x'",
        "value.id = 1 OR NOT value.card.number = 'x'",
    ],
)
def test_a_filter_may_not_ask_about_it(console: RunningConsole, where: str) -> None:
    answer = console.post("/scans", {"topic": "payments", "where": where})
    assert answer.status == 403 and "is masked" in answer.body["message"], answer


def test_words_do_not_find_it(console: RunningConsole) -> None:
    for words in (CARD, "Lovelace", TOKEN, "1111"):
        assert rows(console.scan(topic="payments", where=words, **{"from": "oldest"})) == []
    assert len(rows(console.scan(topic="payments", where="visa", **{"from": "oldest"}))) == 20
    assert console.post("/scans", {"topic": "secret-keys", "key": CARD}).status == 403


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_no_value_is_left_at_a_masked_path(value: object) -> None:
    masks = Masks(mask_rules('[{"topics": "*", "path": "value.a.b"}]', "s"), b"x")
    data = json.dumps({"a": {"b": value, "c": 1}}).encode()
    seen = masks.masked(Record(offset=Offset(0), timestamp=Millis(0), key=None, value=data, headers=()))
    assert json.loads(seen.value or b"") == {"a": {"b": None if value is None else "•••", "c": 1}}


def test_who_is_excepted_sees_it() -> None:
    rules = mask_rules('[{"topics": "pay*", "path": "value.card", "except": ["ann"]}]', "s")
    assert Masks.of(rules, "payments", "ann", b"") is None
    assert Masks.of(rules, "orders", "bob", b"") is None
    found = Masks.of(rules, "payments", "bob", b"")
    assert found is not None and found.refuses(document_condition("value.card.x = 1")) == "value.card"
    assert found.refuses(document_condition("value.cardinal = 1")) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "JSON list"),
        ("{}", "JSON list"),
        ('[{"topics": "a"}]', "path such as"),
        ('[{"topics": "a", "path": "offset"}]', "begins with"),
        ('[{"topics": "a", "path": "headers"}]', "name behind"),
        ('[{"topics": "a", "path": "value", "how": "blur"}]', "how is one of"),
        ('[{"topics": "a", "path": "value", "hide": true}]', "topics, path, how"),
    ],
)
def test_a_rule_that_is_none_is_named(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        mask_rules(text, "ottla.console.masks")
    assert words in str(refused.value)


def test_a_key_over_time_is_all_of_its_versions_from_its_partition(console: RunningConsole) -> None:
    frames = console.scan(topic="orders", key="o-3", **{"from": "oldest"})
    assert [json.loads(row["value"]["text"])["version"] for row in rows(frames)] == [0, 1, 2, 3, 4]
    assert {row["key"]["text"] for row in rows(frames)} == {"o-3"}
    assert len([f for f in frames if f["type"] == "progress"][-1]["rails"]) == 1
    everywhere = console.scan(topic="orders", key="o-3", everywhere=True, **{"from": "oldest"})
    assert len(rows(everywhere)) == 5 and len([f for f in everywhere if f["type"] == "progress"][-1]["rails"]) == 4


def test_an_export_has_each_record_once_and_no_formula(console: RunningConsole) -> None:
    lines = console.ask("POST", "/api/c/cluster/export", {"topic": "orders", "from": "oldest"}).body.splitlines()
    found = [json.loads(line) for line in lines]
    assert len(found) == 40 == len({(each["partition"], each["offset"]) for each in found})
    assert found[0]["value"] == {"version": 0, "sum": "=1+1"}
    text = console.ask("POST", "/api/c/cluster/export", {"topic": "orders", "format": "csv", "hits": 3}).body
    table = list(csv.reader(io.StringIO(text)))
    assert table[0] == ["partition", "offset", "timestamp", "key", "value", "headers"]
    assert len(table) == 5 and table[4][0].startswith("# incomplete: stopped after 3 hits")
    assert console.post("/export", {"topic": "orders", "format": "xls"}).status == 400
    assert console.post("/export", {"topic": "orders", "from": "live"}).status == 400


def test_parquet_has_the_records_and_says_where_it_is_incomplete(console: RunningConsole) -> None:
    table = parquet(console, topic="orders", **{"from": "oldest"})
    assert table.num_rows == 40 and str(table.schema.field("timestamp").type) == "timestamp[ms, tz=UTC]"
    first = table.to_pylist()[0]
    assert json.loads(first["value"]) == {"version": 0, "sum": "=1+1"} and first["key"].startswith("o-")
    assert first["headers"] == []
    some = console.post("/export", {"topic": "orders", "hits": 3, "format": "parquet"}).body
    assert pq.read_metadata(io.BytesIO(some)).metadata[b"ottla.incomplete"] == b"stopped after 3 hits"
    none = parquet(console, topic="orders", where="value.version = -1")
    assert none.num_rows == 0 and none.column_names == table.column_names


def parquet(console: RunningConsole, **asked: Any) -> Any:
    """An export as a reader of Parquet sees it."""
    answer = console.post("/export", {**asked, "format": "parquet"})
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/vnd.apache.parquet"
    return pq.read_table(io.BytesIO(answer.body))


def workers(console: RunningConsole) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(console.process.pid)], capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


def test_a_search_whose_process_dies_says_so_and_the_next_has_a_new_one(console: RunningConsole) -> None:
    before = workers(console)
    assert len(before) == 2
    for each in before:
        Path(f"/proc/{each}/cmdline").read_bytes().index(b"scan_worker")
        subprocess.run(["kill", f"-{signal.SIGKILL.value}", str(each)], check=True)
    until(lambda: not set(before) & set(workers(console)))
    assert len(rows(console.scan(topic="orders", **{"from": "oldest"}))) == 40
    assert not set(before) & set(workers(console)) and len(workers(console)) == 2
