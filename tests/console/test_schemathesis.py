"""What schemathesis makes of the interface's own description: nothing that is asked is a mistake of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.core import NotSet
from schemathesis.generation.case import Case

from ottla.console.api.endpoints import openapi_document
from ottla.console.api.table import Api
from tests.console.running import RunningConsole, running_console
from tests.server import Server, running_server

pytestmark = [pytest.mark.hypothesis, pytest.mark.slow]  # twenty calls a second at most; make test-console
EXAMPLES = 6
NAMES = {
    "topic": ["orders"],
    "partition": ["0"],
    "offset": ["1"],
    "broker": ["1"],
    "group": ["none"],
    "alert": ["loud"],
}
"""What there is, drawn as often as what is not."""
BODIES: list[dict[str, Any]] = [
    {"topic": "orders", "from": "oldest", "where": "value.id > 5"},
    {"topic": "orders", "at": 3},
    {"topic": "orders", "from": {}, "format": {}, "value_decoder": []},
    {"topic": "orders", "key": "k", "cursor": {"0": "x"}},
    {"action": "replay", "arguments": {"source": "orders", "target": "orders"}},
    {"action": "set-alert", "arguments": {"name": [], "condition": {}}},
    {"action": "reset-offsets", "arguments": {"group": "none", "topic": "orders", "to": {}}},
    {"condition": "lag() > 1"},
    {"condition": []},
    {"hash": 1, "typed": []},
    {"key": None, "value": "x", "partition": 99, "headers": [1]},
    {"statement": "SELECT"},
]
document = openapi_document(Api(None, now_ms=lambda: 0).endpoints(), "1", ["cluster"])  # type: ignore[arg-type]
schema = schemathesis.openapi.from_dict(document)
OPERATIONS: list[Any] = [found.ok() for found in schema.get_all_operations()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("broker")) as found:
        producer = Producer({"bootstrap.servers": found.bootstrap})
        for number in range(20):
            producer.produce("orders", json.dumps({"id": number}))
        producer.flush()
        yield found


@pytest.fixture(scope="module")
def console(server: Server) -> Iterator[RunningConsole]:
    with running_console(server.bootstrap) as found:
        found.run("set-alert", name="loud", condition="brokers() > 0", targets=[])
        yield found


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.label)
def test_no_call_fails_by_a_mistake_of_ours(operation: Any, console: RunningConsole) -> None:
    @settings(max_examples=EXAMPLES)
    @given(operation.as_strategy(), st.data())
    def ask(case: Case, data: st.DataObject) -> None:
        case.path_parameters["cluster"] = "cluster"
        for name, known in NAMES.items():
            if name in case.path_parameters and data.draw(st.booleans()):
                case.path_parameters[name] = data.draw(st.sampled_from(known))
        if operation.body and data.draw(st.booleans()):
            case.body = data.draw(st.sampled_from(BODIES))
        given_body = None if isinstance(case.body, NotSet) else case.body
        answer = console.ask(case.method, case.formatted_path, given_body)
        assert answer.status < 500, (answer, case.body)

    ask()
