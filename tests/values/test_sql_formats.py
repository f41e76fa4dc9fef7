"""Hostile values and bytes through SQL's formats: the same value again, or refused by name."""

from __future__ import annotations

import pytest

from tests.values.watched import found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_format_gives_each_value_back_or_refuses_it() -> None:
    assert found("tests.values.sql_formats") == []


@pytest.mark.timeout(600)
def test_the_formats_without_schemas_give_each_value_back_or_refuse_it() -> None:
    assert found("tests.values.sql_formats", "DELIMITED", "JSON", "KAFKA", "NONE") == []
