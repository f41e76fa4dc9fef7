"""Ottla's worker answers as Apache Kafka Connect 4.3 has answered the same calls, standalone and distributed."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.connect.rest.asked import ask_all, written
from tests.connect.rest.calls import CALLS, SOURCE, Call, source
from tests.connect.rest.worker import running_worker
from tests.connect.whole import running_connect
from tests.peer.connect import worker as peer_worker
from tests.ports import free_port
from tests.server import running_server

FACTS = Path(__file__).with_name("facts")
Answer = dict[str, Any]

BETTER: list[tuple[list[Any], int]] = [
    (["POST", "/connectors", {"name": "a", "config": source(), "initial_state": "DANCING"}], 400),
    (["POST", "/connectors", "{"], 400),
    (["POST", "/connectors", "[]"], 400),
    (["POST", "/connectors", {"name": "a", "config": source(), "more": 1}], 400),
    (["PUT", "/connector-plugins/FileStreamSink/config/validate", {"topics": "t"}], 400),
    (
        [
            "PATCH",
            "/connectors/lines/offsets",
            {"offsets": [{"partition": {"filename": [1]}, "offset": {"position": 5}}]},
        ],
        400,
    ),
]
"""Kafka answers 500 to these mistakes of a client."""

OTHER_WORDS: list[tuple[list[Any], str]] = [
    (["POST", "/connectors", {"name": "a", "config": {}}], "Connector config {name} contains no connector type"),
    (
        ["POST", "/connectors", {"name": "a", "config": {"connector.class": "nobody.knows.It"}}],
        "Failed to find any class that implements Connector and which name matches nobody.knows.It, available connectors",
    ),
]
"""Values are not repeated, because some are secrets; and our plugins are described without Java's classes."""


@cache
def facts(mode: str) -> list[Any]:
    found: list[Any] = json.loads((FACTS / f"{mode}.json").read_text())
    return found


HERE_ONLY = ("tests.", "ottla.", "io.confluent.", "io.debezium.")
"""The classes of plugins that Kafka does not bring along."""


def comparable(call: Call, answer: Answer) -> Answer:
    """Return an answer without what is installed in one of the two only."""
    if call.path.endswith("/validate") and isinstance(answer["body"], dict):
        return {
            **answer,
            "body": {**answer["body"], "configs": list(map(recommended, answer["body"].get("configs", [])))},
        }
    if "status" in call.path:
        return {**answer, "body": without_progress(answer["body"])}
    if "connectorsOnly" not in call.path:
        return answer
    shared = [
        each for each in answer["body"] if ".mirror." not in each["class"] and not each["class"].startswith(HERE_ONLY)
    ]
    return {**answer, "body": shared}


def without_progress(body: Any) -> Any:
    """Return statuses without what tasks tell of their progress: Kafka's have none."""
    if not isinstance(body, dict):
        return body
    return {key: without_progress(value) for key, value in body.items() if key != "progress"}


def recommended(config: dict[str, Any]) -> dict[str, Any]:
    """Return a validated key without the recommendation of what is installed here only."""
    value = config["value"]
    values = [each for each in value["recommended_values"] if not each.startswith(HERE_ONLY)]
    return {**config, "value": {**value, "recommended_values": values}}


def explained(asked: list[Any], answer: Answer, theirs: Answer) -> bool:
    """Return whether a difference is one that is meant."""
    if any(asked == each and answer["status"] == status and theirs["status"] == 500 for each, status in BETTER):
        return True
    words = [words for each, words in OTHER_WORDS if asked == each]
    return bool(words) and answer["status"] == theirs["status"] and answer["body"]["message"].startswith(words[0])


def differing(port: int) -> list[Any]:
    """Ask a worker every call and return what it answers otherwise than both kinds of Kafka's."""
    wrong = []
    for (call, ours), alone, grouped in zip(
        ask_all(port, CALLS), facts("standalone"), facts("distributed"), strict=True
    ):
        asked = written(call)
        assert asked == alone[0] == grouped[0], "the facts are of other calls: record them again"
        theirs = [comparable(call, each[1]) for each in (alone, grouped)]
        if comparable(call, ours) not in theirs and not explained(asked, ours, theirs[0]):
            wrong.append((asked, ours, theirs[0]))
    return wrong


def test_a_worker_answers_every_call_as_kafka_connect_does() -> None:
    with running_worker() as worker:
        wrong = differing(worker.port)
    assert not wrong, wrong[:3]


def test_a_worker_with_real_connectors_and_tasks_answers_every_call_as_kafka_connect_does(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, running_connect(tmp_path, server.bootstrap) as worker:
        wrong = differing(int(worker.url.rpartition(":")[2]))
    assert not wrong, wrong[:3]


def test_the_facts_hold_most_calls_in_one_form_for_both_kinds_of_worker() -> None:
    pairs = zip(facts("standalone"), facts("distributed"), strict=True)
    differing = [alone[0][:2] for alone, grouped in pairs if alone[1] != grouped[1]]
    assert len(CALLS) > 100 and len(differing) < 10, differing


@pytest.mark.peer
@pytest.mark.parametrize("mode", ["standalone"])
@pytest.mark.slow
def test_kafka_connect_still_answers_as_recorded(mode: str, tmp_path: Path) -> None:
    calls = [call for call in CALLS if not call.path.startswith("/connectors/out")][:60]
    with running_server(tmp_path) as server:
        port = free_port()
        with peer_worker.running_worker(mode, tmp_path / "worker", server.bootstrap, port):
            for (call, answer), (asked, recorded) in zip(ask_all(port, calls), facts(mode), strict=False):
                assert asked == written(call)
                assert answer["status"] == recorded["status"], (asked, answer)
                if isinstance(answer["body"], dict) and "JsonToken" not in str(answer["body"]):
                    assert answer["body"] == recorded["body"], asked


def test_the_calls_name_the_class_that_the_facts_are_of() -> None:
    assert any(SOURCE in json.dumps(each) for each in facts("standalone"))
