"""Fixes: assignments change what they name, and nothing else of a record."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin import FixError
from ottla.base import Millis
from ottla.console.records.fixes import Fix
from ottla.sql import SqlError
from ottla.wire import Record

VALUE = (
    b'{"id": 7, "price": 1.10, "big": 12345678901234567890.123456789, "a": {"b": null}, "items": [{"n": 1}, {"n": 2}]}'
)


def fixed(words: str, value: bytes | None = VALUE, key: bytes | None = b"k", **headers: bytes) -> Any:
    return Fix(words).apply(Record(timestamp=Millis(5), key=key, value=value), tuple(headers.items()))


def test_what_is_assigned_changes_and_all_else_stays_as_it_was_written() -> None:
    found = fixed("value.a.b = 'x', value.items[-1].n = value.items[1].n + 10, value.new.deep = TRUE")
    assert found.value == (
        b'{"id": 7, "price": 1.10, "big": 12345678901234567890.123456789, "a": {"b": "x"}, '
        b'"items": [{"n": 1}, {"n": 11}], "new": {"deep": true}}'
    )
    assert (found.key, found.headers) == (b"k", ())
    assert [(each.path, each.before, each.after) for each in found.mended] == [
        ("value.a.b", None, "x"),
        ("value.items[-1].n", 2, 11),
        ("value.new.deep", None, True),
    ]


def test_assignments_see_the_record_as_it_was() -> None:
    assert json.loads(fixed("value.x = value.y, value.y = value.x", b'{"x":1,"y":2}').value) == {"x": 2, "y": 1}
    assert fixed("value.x = 5", b'{"x":1,"y":[1,2]}').value == b'{"x":5,"y":[1,2]}', "spaced as it was"


def test_keys_values_and_headers_can_be_set_whole() -> None:
    found = fixed("key = UCASE(key), value = 'plain', headers['why'] = 'mended'", own=b"kept", why=b"bad")
    assert (found.key, found.value) == (b"K", b"plain")
    assert found.headers == (("own", b"kept"), ("why", b"mended"))
    assert fixed("value = NULL").value is None
    assert fixed("value = 7", b"text").value == b"7"


@pytest.mark.parametrize(
    ("words", "value", "said"),
    [
        ("value.a = 1", b"no JSON", "what is above it is no document"),
        ("value.a = 1", b"\xff\xfe", "what is above it is no document"),
        ("value.a.b = 1", b'{"a": 5}', "what is above it is no document"),
        ("value.items[9].n = 1", VALUE, "there is no such element"),
        ("value.items[1].n.x = 1", VALUE, "what is above it is no document"),
    ],
)
def test_a_record_that_it_does_not_fit_says_why(words: str, value: bytes, said: str) -> None:
    with pytest.raises(FixError, match=said):
        fixed(words, value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "An assignment is needed"),
        ("value.a", "PATH = EXPRESSION"),
        ("value.a > 1", "PATH = EXPRESSION"),
        ("value.a = 1 AND value.b = 2", "PATH = EXPRESSION"),
        ("value.a + 1 = 2", "Not a path"),
        ("offset = 1", "not of offset"),
        ("headers = 'x'", "A header is set by its name"),
        ("value.a = NOTHING(1)", "no function"),
        ("value.a = ", "line 1"),
        ("x = 1", "no column X"),
    ],
)
def test_what_is_no_assignment_says_why(words: str, said: str) -> None:
    with pytest.raises(SqlError, match=said):
        Fix(words)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.decimals(allow_nan=False, allow_infinity=False).map(float),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.booleans())
def test_any_document_is_the_same_but_for_what_was_set(document: Any, compact: bool) -> None:
    separators = (",", ":") if compact else (", ", ": ")
    value = json.dumps({"it": document, "set": 1}, separators=separators).encode()
    found = fixed("value.set = 2", value).value
    assert json.loads(found, parse_float=Decimal) == {**json.loads(value, parse_float=Decimal), "set": 2}


@given(st.binary(max_size=60))
def test_no_bytes_make_a_fix_fail_but_by_saying_so(value: bytes) -> None:
    with suppress(FixError):
        fixed("value.a = 1, key = value.b", value, value, h=value)
