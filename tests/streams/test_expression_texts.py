"""Texts of expressions: a raw one beside one that is not, and regular expressions that are refused by name."""

from __future__ import annotations

import pytest

from ottla.streams.expressions import Refused, compiled, kinds

COLUMNS = {"value": kinds.STRING}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"split(lower(value), r'\W+')", ["a", "b1"]),
        (r"regexp_replace(value, r'\W+', '-') || ' r'", "A-b1 r"),
        (r"concat('r', regexp_extract(value, r'(\d)', 1), ' r')", "r1 r"),
        (r"""regexp_count(value, R"\w")""", 3),
    ],
)
def test_a_raw_text_may_stand_beside_one_that_is_not(text: str, found: object) -> None:
    assert compiled(text, COLUMNS).function(("value",))("A, b1") == found


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (r"value || '\n'", "backslash"),
        (r"""concat(" r'\n'", value)""", "backslash"),
        (r"regexp_extract(value, r'\d', 0) || '\t'", "backslash"),
        (r"split(value, r'(?=a)')", "not known here"),
        (r"split(value, r'\b')", "empty text"),
        (r"regexp_replace(value, 'a*', '-')", "empty text"),
        (r"regexp_replace(value, 'a', '$1')", "replacement"),
        (r"regexp_extract(value, 'a', 1)", "group 1 of 'a', which has 0"),
        (r"regexp_extract(value, '(', 1)", "regular expression '('"),
    ],
)
def test_what_spark_may_say_otherwise_is_refused_by_name(text: str, word: str) -> None:
    with pytest.raises(Refused) as refused:
        compiled(text, COLUMNS)
    assert word in str(refused.value)
