"""What schemathesis makes of the REST interface's own description: answered as described, and never with a mistake of ours.

Connectors and offsets that exist are drawn as often as what nobody knows, so that more than 404 is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.case import Case
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from ottla.connect.rest import RestSettings, openapi_document
from ottla.connect.rest.endpoints import Endpoints
from tests.connect.rest.calls import SINK, SOURCE
from tests.connect.rest.worker import Worker, running_worker

pytestmark = [pytest.mark.hypothesis, pytest.mark.xdist_group("schemathesis")]
EXAMPLES = int(os.environ.get("EXAMPLES", "6"))
CONFIGS: list[dict[str, Any]] = [
    {"connector.class": SOURCE, "topic": "t"},
    {"connector.class": SOURCE, "topic": ""},
    {"connector.class": SINK, "topics": "t"},
    {"connector.class": SINK, "topics": "t", "topics.regex": "t", "tasks.max": "many"},
]
BODIES: list[Any] = [
    *CONFIGS,
    *({"name": "lines", "config": config, "initial_state": "STOPPED"} for config in CONFIGS),
    {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 3}}]},
    {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 3}}]},
    {"level": "INFO"},
]
NAMES = {"connector": ["lines", "out"], "task": [0, 1], "plugin": ["FileStreamSource", "FileStreamSink", SINK]}
LOGGER = "ottla.tests.schemathesis"
"""The one logger whose level is set, because levels are those of the process that runs the tests."""

document = openapi_document(Endpoints(None, RestSettings()).all())  # type: ignore[arg-type]
schema = schemathesis.openapi.from_dict(document)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with running_worker() as worker:
        worker.groups.topics.add("t")
        yield worker


OPERATIONS: list[Any] = [found.ok() for found in schema.get_all_operations()]
WITH_BODY = [each for each in OPERATIONS if each.body]
REFUSED_BY_THE_CONNECTOR = "The value for the 'position' key in the offset is expected to be a Long value"
"""What the connector itself answers to offsets that are not its own: 500, as from Kafka Connect."""


def checked(case: Case, worker: Worker, without: list[Any]) -> None:
    answer = case.call(base_url=f"http://127.0.0.1:{worker.port}")
    if answer.status_code == 500 and answer.json()["message"] == REFUSED_BY_THE_CONNECTOR:
        without = [*without, not_a_server_error]
    case.validate_response(answer, excluded_checks=without)


def aimed(case: Case, draw: Any) -> None:
    """Give a case names that exist, as often as not."""
    for name, known in NAMES.items():
        if name in case.path_parameters and draw(st.booleans()):
            case.path_parameters[name] = draw(st.sampled_from(known))
    if "logger" in case.path_parameters:
        case.path_parameters["logger"] = LOGGER


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.label)
def test_an_operation_answers_as_it_is_described(operation: Any, worker: Worker) -> None:
    @settings(max_examples=EXAMPLES)
    @given(operation.as_strategy(), st.data())
    def ask(case: Case, data: st.DataObject) -> None:
        aimed(case, data.draw)
        if operation.body and data.draw(st.booleans()):
            case.body = data.draw(st.sampled_from(BODIES))
        checked(case, worker, [positive_data_acceptance])  # a configuration may be well-formed and wrong

    ask()


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda each: each.label)
def test_a_body_that_is_not_as_described_is_refused(operation: Any, worker: Worker) -> None:
    @settings(max_examples=EXAMPLES)
    @given(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE), st.data())
    def ask(case: Case, data: st.DataObject) -> None:
        aimed(case, data.draw)
        wrong = case.meta.components.get(ParameterLocation.BODY)
        only_elsewhere = wrong is None or wrong.mode.is_positive  # Kafka takes any flag that is not `true` for false
        checked(case, worker, [negative_data_rejection] if only_elsewhere else [])

    ask()
