"""What is nested costs as much as it is deep. Each of these texts is short: twice the work at each level would never end."""

from __future__ import annotations

import pytest

from tests.sql.evaluation import type_text, value_of

LEVELS = 30
NESTED = [
    pytest.param("ABS(", "I", ")", 7, id="calls"),
    pytest.param("COALESCE(", "I", ", 1)", 7, id="calls of several arguments"),
    pytest.param("", "S", " || ''", "hello", id="concatenation"),
    pytest.param("ARRAY[", "I", "][1]", 7, id="arrays"),
    pytest.param("MAP('a' := ", "I", ")['a']", 7, id="maps"),
    pytest.param("STRUCT(a := ", "I", ")->a", 7, id="structs"),
    pytest.param("REDUCE(ARRAY[1], 0, (s, x) => ", "I", ")", 7, id="lambdas"),
    pytest.param("CASE WHEN ", "I = 7", " THEN true END", True, id="conditions of CASE"),
    pytest.param("CASE ", "I", " WHEN 1 THEN 2 WHEN 7 THEN 7 END", 7, id="operands of CASE"),
    pytest.param("CASE WHEN ", "I", " BETWEEN 1 AND 9 THEN 7 END", 7, id="BETWEEN"),
    pytest.param("CASE WHEN ", "I", " IN (7, 8) THEN 7 END", 7, id="IN"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("before", "inner", "behind", "value"), NESTED)
def test_what_is_nested_is_compiled_and_computed_once_at_each_level(
    before: str, inner: str, behind: str, value: object
) -> None:
    text = before * LEVELS + inner + behind * LEVELS
    assert type_text(text)
    assert value_of(text) == value
