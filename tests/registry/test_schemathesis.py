"""What schemathesis makes of the interface's own description: answered as described, and never with a mistake of ours.

Subjects, versions and ids that exist are drawn as often as what nobody knows, so that more than 404 is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok, Result
from schemathesis.generation.case import Case
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from ottla.registry.rest.endpoints import Endpoints
from ottla.registry.rest.openapi import openapi_document
from tests.registry.running import RegistryProcess, record, running_registry
from tests.server import Server

pytestmark = [pytest.mark.hypothesis, pytest.mark.compat]
EXAMPLES = int(os.environ.get("EXAMPLES", "6"))
"""Of each of some forty operations: 25 took half a minute. `make fuzz` draws a thousand."""
JSON = '{"type": "object", "properties": {"a": {"type": "integer"}}}'
BODIES: list[Any] = [
    {"schema": record("R")},
    {"schema": record("R", "x"), "metadata": {"properties": {"major": "1"}}},
    {"schema": JSON, "schemaType": "JSON"},
    {"schema": 'syntax = "proto3"; message M { string a = 1; }', "schemaType": "PROTOBUF"},
    {"schema": record("S"), "references": [{"name": "R", "subject": "known", "version": 1}]},
    {"schema": record("T"), "id": 1, "version": 1},
    {"compatibility": "FULL"},
    {"mode": "IMPORT"},
    {"mode": "READWRITE"},
]
NAMES: dict[str, list[Any]] = {
    "subject": ["known", "json", ":.other:known"],
    "version": ["1", "latest", "-1"],
    "id": [1, 2],
    "context": [".other"],
}


class _Described:
    """Stands for a registry whose endpoints are described and not asked."""

    settings = None


document = openapi_document(Endpoints(_Described()).all())  # type: ignore[arg-type]
schema = schemathesis.openapi.from_dict(document)


def _described(found: Result[Any, Any]) -> Any:
    assert isinstance(found, Ok), found
    return found.ok()


OPERATIONS = [_described(found) for found in schema.get_all_operations()]


@pytest.fixture(scope="module")
def registry(broker: Server) -> Iterator[RegistryProcess]:
    overrides = ["kafkastore.topic=_fuzzed", "schema.registry.group.id=fuzzed"]
    with running_registry(broker.bootstrap, overrides=overrides) as found:
        found.register("known", record("R"))
        found.register("json", JSON, schemaType="JSON")
        yield found


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.label)
def test_an_operation_answers_as_it_is_described(operation: Any, registry: RegistryProcess) -> None:
    @settings(max_examples=EXAMPLES)
    @given(operation.as_strategy(), st.data())
    def ask(case: Case[Any], data: st.DataObject) -> None:
        for name, known in NAMES.items():
            if name in case.path_parameters and data.draw(st.booleans()):
                case.path_parameters[name] = data.draw(st.sampled_from(known))
        if operation.body and data.draw(st.booleans()):
            case.body = data.draw(st.sampled_from(BODIES))
        answer = case.call(base_url=registry.url)
        # what is well-formed may be wrong, and fields that nobody knows are passed over
        case.validate_response(answer, excluded_checks=[positive_data_acceptance, negative_data_rejection])

    ask()
    assert registry.process.poll() is None
    assert not [line for line in registry.lines if "Traceback" in line], registry.said()
    assert registry.get("/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]


def test_the_description_is_served(registry: RegistryProcess) -> None:
    assert registry.get("/openapi.json") == document
