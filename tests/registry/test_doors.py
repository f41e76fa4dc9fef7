"""Bytes that anybody sends are read or refused: no other error leaves a parser of the registry."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.registry.doors import DOORS, knock

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "type",
                        "name",
                        "fields",
                        "items",
                        "symbols",
                        "default",
                        "schema",
                        "references",
                        "version",
                        "subject",
                    ),
                    *(
                        "metadata",
                        "tags",
                        "ruleSet",
                        "domainRules",
                        "keytype",
                        "host",
                        "port",
                        "master_identity",
                        "$ref",
                    ),
                    *(
                        "properties",
                        "allOf",
                        "required",
                        "enum",
                        "aliases",
                        "size",
                        "logicalType",
                        "precision",
                        "values",
                    ),
                ]
            ),
            inner
            | st.sampled_from(["record", "enum", "fixed", "array", "map", "int", "string", "SCHEMA", "CONFIG", "#"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("door", sorted(DOORS))
@settings(max_examples=150, deadline=None)
@given(
    data=st.one_of(
        st.binary(max_size=64),
        st.text(":.*_GLOBctx%/-", max_size=16).map(str.encode),
        VALUES.map(lambda each: json.dumps(each).encode()),
    )
)
def test_what_anybody_sends_is_read_or_refused(door: str, data: bytes) -> None:
    knock(door, data)


@pytest.mark.parametrize("door", sorted(DOORS))
def test_deep_and_long_things_are_read_or_refused(door: str) -> None:
    for data in (
        *(b"[" * 50_000, b'{"a":' * 50_000, b'{"type":"array","items":' * 5_000 + b'"int"' + b"}" * 5_000),
        *(b'{"allOf":[' * 5_000 + b"{}" + b"]}" * 5_000, b"9" * 5_000, b":." * 50_000, b'"\\ud800"', b"1e999999"),
        *(b'{"host":"a","port":' + b"9" * 5_000 + b"}", b'{"host":"a","port":1e400}', b'{"version":1e400}'),
    ):
        knock(door, data)
