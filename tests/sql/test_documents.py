"""Conditions over documents: what a filter of records means, and that no text is too much for it."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.sql import SqlError, document_condition, document_path

ORDER: dict[str, Any] = {
    "topic": "orders",
    "partition": 3,
    "offset": 17,
    "timestamp": 1_764_000_000_000,
    "key": "c-1",
    "value": {
        "status": "FAILED",
        "amount": Decimal("300.50"),
        "paid": False,
        "Ref": None,
        "customer": {"country": "DE", "e.mail": "x@y"},
        "items": [{"sku": "a"}, {"sku": "b"}],
    },
    "headers": {"region": "eu"},
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("value.status = 'FAILED' AND value.amount > 250", True),
        ("value.status = 'failed'", False),
        ("LCASE(value.status) = 'failed'", True),
        ("value.customer.country IN ('AT', 'DE')", True),
        ("value.customer.`e.mail` = 'x@y'", True),
        ("value.items[1].sku = 'a' AND value.items[-1].sku = 'b'", True),
        ("value.items[3].sku = 'a'", False),
        ("value.items[0].sku IS NULL", True),
        ("headers['region'] = 'eu' AND headers.region LIKE 'e_'", True),
        ("key LIKE 'c-%'", True),
        ("value.status NOT LIKE '%A%'", False),
        ("value.paid = FALSE", True),
        ("value.paid = 0", False),
        ("value.Ref IS NULL AND value.ref IS NULL", True),
        ("value.none = 1 OR partition = 3", True),
        ("value.none = 1", False),
        ("NOT value.none = 1", False),
        ("value.none <> 1", False),
        ("value.none IS DISTINCT FROM 1", True),
        ("value.status > 3", False),
        ("NOT value.status > 3", False),
        ("offset BETWEEN 10 AND 20", True),
        ("timestamp >= '2025-11-24T16:00:00' AND timestamp < '2025-11-24T16:00:00.001Z'", True),
        ("value.amount * 2 = 601", True),
        ("value.amount / 0 = 1", False),
        ("LEN(value.items) = 2", True),
        ("value.items = value.items", True),
        ("failed de", True),
        ("failed fr", False),
        ("region", True),
    ],
)
def test_a_condition_holds_as_sql_says(text: str, holds: bool) -> None:
    assert document_condition(text).holds(ORDER) is holds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("status = 'x'", "no column STATUS in a record"),
        ("value.amount > ", "line 1:"),
        ("REGEXP(value.a) = 1", "no function REGEXP"),
        ("LEN(value.a, 2) = 1", "takes one argument"),
        ("timestamp > 'yesterday'", "is no time"),
        ("value.a LIKE value.b", "LIKE takes a text"),
        ("value[key] = 1", "An index is a number or a text"),
        ("CASE WHEN value.a = 1 THEN TRUE END", "has no Case"),
        ("", "A condition is needed"),
        ("x" * 5000, "4096 at most"),
    ],
)
def test_what_is_no_condition_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(SqlError, match=words):
        document_condition(text)


def test_a_condition_says_which_paths_it_looks_at() -> None:
    assert document_condition("value.a.b = 1 AND headers.x = 'y'").paths == (("value", "a", "b"), ("headers", "x"))


def test_a_path_is_a_column() -> None:
    assert document_path("value.customer.country")(ORDER) == "DE"
    assert document_path("value.amount + 1")(ORDER) == Decimal("301.50")


SMALL = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "b", "ab", "A%"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)


@given(value=SMALL, literal=st.sampled_from(["a", "b", "ab"]))
def test_bytes_without_the_literals_of_a_condition_never_fit_it(value: Any, literal: str) -> None:
    condition = document_condition(f"value.a = '{literal}' AND NOT value.b = 'x'")
    data = json.dumps({"a": value, "b": value}).encode()
    if any(text not in data for text in condition.must_contain) and b"\\" not in data:
        assert not condition.holds({"value": json.loads(data)})


PIECES = [
    "value",
    ".a",
    "['b']",
    "[1]",
    " = ",
    "<",
    "'x'",
    "1",
    "1e5",
    " AND ",
    " OR ",
    "NOT ",
    "(",
    ")",
    " LIKE ",
    "%",
    "key",
    ",",
    " IN ",
]


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12), value=SMALL)
def test_any_text_is_a_condition_or_refused(pieces: list[str], value: Any) -> None:
    try:
        condition = document_condition("".join(pieces))
    except SqlError:
        return
    condition.holds({**ORDER, "value": value})


@given(text=st.text("ab", max_size=30), pattern=st.text("ab%_", max_size=12))
def test_like_is_what_an_expression_of_the_same_meaning_finds(text: str, pattern: str) -> None:
    import re

    expected = re.fullmatch(pattern.replace("%", ".*").replace("_", "."), text, re.DOTALL) is not None
    assert document_condition(f"value LIKE '{pattern}'").holds({"value": text}) is expected
