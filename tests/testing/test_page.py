"""The programs and tests of docs/testing.md, word for word, run as the tests of a project that has nothing else."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.testing.project import run_project

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS_FASTAPI = "test_orders_api.py"


def recipes() -> dict[str, str]:
    """Return the page's files by name."""
    return dict(BLOCK.findall(PAGE.read_text()))


def test_every_block_of_python_is_a_file() -> None:
    assert len(recipes()) == PAGE.read_text().count("```python\n") >= 12


@pytest.mark.slow
def test_the_recipes_of_the_page_pass(pytester: pytest.Pytester) -> None:
    found = recipes()
    for name, text in found.items():
        (pytester.path / name).write_text(text)
    tests = sorted(name for name in found if name.startswith("test_") and name != NEEDS_FASTAPI)
    result = run_project(pytester, "", "-n0", *tests)
    result.assert_outcomes(passed=10)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("fastapi") is None, reason="FastAPI is not installed: `make install` brings it")
def test_the_recipe_for_fastapi_passes(pytester: pytest.Pytester) -> None:
    for name, text in recipes().items():
        (pytester.path / name).write_text(text)
    run_project(pytester, "", "-n0", NEEDS_FASTAPI).assert_outcomes(passed=2)
