"""Fingerprints and GUIDs are those of Confluent's registry: the values are of its public tests of release 8."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.schemas import SchemaReference, fingerprint, guid

PERSON = (
    '{"type":"record","name":"Person","namespace":"io.confluent.kafka.example","fields":[{"name":"name","type":"string"},'
    '{"name":"age","type":"int"},{"name":"ssn","type":"string"},{"name":"user","type":"io.confluent.kafka.example.User"},'
    '{"name":"address","type":"io.confluent.kafka.example.Address"}]}'
)
REFERENCES = (
    SchemaReference("io.confluent.kafka.example.User", "User", 1),
    SchemaReference("io.confluent.kafka.example.Address", "Address", 2),
)
METADATA = {
    "tags": {"team": ["data-engineering"], "environment": ["staging", "production"]},
    "properties": {"version": "1.0.0", "owner": "data-team", "description": "Person schema for user management"},
    "sensitive": ["ssn", "credit-card"],
}


def rule(name: str, doc: str, kind: str, mode: str, family: str, field: str, expr: str) -> dict[str, Any]:
    actions = {"onSuccess": "none", "onFailure": "error", "disabled": False}
    words = {"name": name, "doc": doc, "kind": kind, "mode": mode, "type": family, "expr": expr}
    return {**words, "tags": ["PERSON"], "params": {"field": field}, **actions}


UPPER = "field.name = field.name.toUpperCase()"
RULES = {
    "migrationRules": [
        rule("upgrade-rule-1", "Upgrade rule for field changes", "TRANSFORM", "UPGRADE", "FIELD_UPDATE", "name", UPPER),
        rule(
            *("downgrade-rule-1", "Downgrade rule for compatibility", "TRANSFORM", "DOWNGRADE", "FIELD_DELETE", "ssn"),
            "delete field.ssn",
        ),
    ],
    "domainRules": [
        rule(
            *("validation-rule-1", "Validate age field", "CONDITION", "WRITE", "FIELD_VALIDATION", "age"),
            "field.age >= 0 && field.age <= 150",
        ),
        rule(
            *("masking-rule-1", "Mask sensitive data on read", "TRANSFORM", "READ", "DATA_MASKING", "ssn"),
            "field.ssn = '***-**-****'",
        ),
    ],
}


@pytest.mark.parametrize(
    ("references", "metadata", "rules", "expected"),
    [
        ((), None, None, "d629bb05-ad85-3d20-fbcb-895de3c459f7"),
        ((), None, RULES, "c0708b8f-65f6-b698-bffe-45c1dfa8987c"),
        ((), METADATA, None, "2034166c-90a8-1166-0ff2-f5f62c80dbe0"),
        ((), METADATA, RULES, "d9877161-cfdf-d8c5-4eb4-ab37ed50e9d5"),
        (REFERENCES, None, None, "5c08d70e-5347-41b2-6369-199425d044eb"),
        (REFERENCES, None, RULES, "96825311-eb10-b7f5-48be-2a023b4c018e"),
        (REFERENCES, METADATA, None, "3619d8e0-2ee8-de51-0d9e-2520d39174d5"),
        (REFERENCES, METADATA, RULES, "589556fb-ad98-e8e0-94fa-e6da3455433a"),
    ],
)
def test_a_guid_is_confluents(references: Any, metadata: Any, rules: Any, expected: str) -> None:
    assert str(guid(PERSON, references, metadata, rules)) == expected
    assert fingerprint(PERSON, references, metadata, rules).hex() == expected.replace("-", "")
