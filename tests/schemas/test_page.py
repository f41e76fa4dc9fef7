"""The page about formats, docs/schemas.md, says what is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ottla.schemas import DEFAULT_LIMITS
from tests.schemas.facts import FACTS

PAGE = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text()


def test_its_program_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    exec(found[1], {})
    said = capsys.readouterr().out.splitlines()
    assert "The field note" in said[0] and said[1] == "{oldSchemaVersion: 1}" and '"name":"Order"' in said[2]


def test_its_bounds_are_those_of_the_product() -> None:
    assert DEFAULT_LIMITS.text_bytes_max == 1 << 20 and DEFAULT_LIMITS.total_bytes_max == 8 << 20
    assert (
        DEFAULT_LIMITS.depth_max == 100
        and DEFAULT_LIMITS.names_max == 10_000
        and DEFAULT_LIMITS.references_max == 1_000
    )
    assert DEFAULT_LIMITS.compile_seconds_max == 10.0 and DEFAULT_LIMITS.compile_bytes_max == 512 << 20


def test_it_tells_how_many_answers_of_java_there_are() -> None:
    facts = json.loads(FACTS.read_text())
    texts = sum("text" in fact for fact in facts)
    assert f"{texts} texts and {len(facts) - texts} pairs of schemas" in PAGE.replace("\n", " ")
