"""The topic's records: Confluent's bytes out, and whatever other registries have written in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.registry.core import StoredSchema, Unreadable, decode, encode
from ottla.registry.core.records import (
    ConfigSet,
    ContextMade,
    IdMark,
    ModeSet,
    Noop,
    Record,
    SchemaRemoved,
    SchemaStored,
    SubjectCleared,
    SubjectDeleted,
)
from ottla.schemas import SchemaReference

MONEY = SchemaReference("Money", "money", 1)


def stored(**more: Any) -> StoredSchema:
    return StoredSchema(**{"subject": "s", "version": 1, "id": 7, "text": '"string"', **more})


@pytest.mark.parametrize(
    "record, key, value",
    [
        (
            SchemaStored(stored()),
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            '{"subject":"s","version":1,"id":7,"md5":"CV1xzxJVa51eMwrVdbPfXQ==","schema":"\\"string\\"","deleted":false}',
        ),
        (
            SchemaStored(stored(schema_type="JSON", references=(MONEY,), metadata={"properties": {"a": "b"}})),
            '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            None,
        ),
        (SchemaRemoved("s", 1), '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', ""),
        (
            ConfigSet("s", {"compatibilityLevel": "NONE"}),
            '{"keytype":"CONFIG","subject":"s","magic":0}',
            '{"subject":"s","compatibilityLevel":"NONE"}',
        ),
        (
            ConfigSet(None, {"compatibilityLevel": "FULL"}),
            '{"keytype":"CONFIG","subject":null,"magic":0}',
            '{"compatibilityLevel":"FULL"}',
        ),
        (
            ModeSet("s", "READONLY"),
            '{"keytype":"MODE","subject":"s","magic":0}',
            '{"subject":"s","mode":"READONLY"}',
        ),
        (ModeSet("s", None), '{"keytype":"MODE","subject":"s","magic":0}', ""),
        (
            SubjectDeleted("s", 3),
            '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
            '{"subject":"s","version":3}',
        ),
        (SubjectCleared("s"), '{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}', '{"subject":"s"}'),
        (
            ContextMade(".ctx"),
            '{"keytype":"CONTEXT","tenant":"default","context":".ctx","magic":0}',
            '{"tenant":"default","context":".ctx"}',
        ),
        (IdMark(".", 9), '{"keytype":"NOOP","context":".","magic":0}', '{"maxId":9}'),
        (Noop(), '{"keytype":"NOOP","magic":0}', ""),
    ],
)
def test_records_are_written_as_confluent_writes_them_and_read_back(
    record: Record, key: str, value: str | None
) -> None:
    written = encode(record)
    assert written[0].decode() == key
    if value is not None:
        assert (written[1] or b"").decode() == value
    assert decode(*written) == record


def test_the_fields_of_a_version_stand_in_confluents_order() -> None:
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "disabled": False}]}
    schema = stored(schema_type="PROTOBUF", references=(MONEY,), metadata={"tags": {"a": ["b"]}}, rule_set=rules)
    value = json.loads(encode(SchemaStored(schema))[1] or b"")
    assert list(value) == [
        *("subject", "version", "id", "md5", "schemaType", "references", "metadata", "ruleSet", "schema", "deleted"),
    ]


@pytest.mark.parametrize(
    "key, value, record",
    [
        (
            '{"keytype":"SCHEMA","subject":"t","version":1,"magic":0}',
            '{"subject":"t","version":1,"id":1,"schema":"\\"int\\""}',
            SchemaStored(StoredSchema("t", 1, 1, '"int"')),
        ),
        (
            '{"subject": "t", "version": 2, "magic": 1, "keytype": "SCHEMA"}',
            '{"subject": "t", "version": 2, "id": 3, "schema": "{}", "schemaType": "JSON", "deleted": true}',
            SchemaStored(StoredSchema("t", 2, 3, "{}", "JSON", deleted=True)),
        ),
        (
            '{"keytype":"CONFIG","subject":null,"magic":0}',
            '{"compatibilityLevel":"FULL"}',
            ConfigSet(None, {"compatibilityLevel": "FULL"}),
        ),
        ('{"keytype":"CONFIG","magic":0}', '{"compatibilityLevel":null}', ConfigSet(None, None)),
        ('{"keytype":"MODE","subject":"i","magic":0}', None, ModeSet("i", None)),
        ('{"keytype":"DELETE_SUBJECT","subject":"t","magic":0}', None, Noop()),
    ],
    ids=["old Confluent", "Karapace", "global", "Karapace removes", "tombstone", "deleted once"],
)
def test_what_other_registries_wrote_is_read(key: str, value: str | None, record: Record) -> None:
    assert decode(key.encode(), None if value is None else value.encode()) == record


@pytest.mark.parametrize(
    "key, value",
    [
        (None, None),
        (b"\xff\xfe", None),
        (b"[]", None),
        (b"[" * 100_000, None),
        (b'{"keytype":"ASSOC","tenant":"default"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"t","version":0,"magic":1}', None),
        (b'{"keytype":"SCHEMA","subject":"t","version":"x","magic":1}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', b'{"id":1}'),
        (b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', b'{"id":99999999999,"schema":""}'),
        (b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', b'{"id":1,"schema":"{}","metadata":7}'),
        (b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', b'{"id":1,"schema":"{}","metadata":{"tags":7}}'),
        (b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', b'{"id":1,"schema":"{}","references":[1]}'),
        (b'{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}', b'{"id":1,"schema":"\\ud800"}'),
    ],
)
def test_a_foreign_or_damaged_record_is_unreadable_and_no_more(key: bytes | None, value: bytes | None) -> None:
    assert isinstance(decode(key, value), Unreadable)
