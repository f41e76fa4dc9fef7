"""Every example of docs/streams-dsl.md runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "streams-dsl.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_page_runs(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    exec(compile(EXAMPLES[number], f"{PAGE.name}, example {number + 1}", "exec", dont_inherit=True), module.__dict__)
