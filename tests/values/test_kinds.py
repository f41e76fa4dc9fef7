"""Kinds of fault that are found in the code itself."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent / "src" / "ottla"


def test_whoever_refuses_what_is_no_json_refuses_what_is_nested_too_deep() -> None:
    """A thousand brackets raise RecursionError, which is no ValueError."""
    forgotten = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        if "json.loads(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Try) or not any("json.loads(" in ast.unparse(each) for each in node.body):
                continue
            caught = " ".join(ast.unparse(each.type) for each in node.handlers if each.type is not None)
            if "ValueError" in caught and "RecursionError" not in caught and "Exception" not in caught.split():
                forgotten.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert forgotten == []


def test_numbers_of_json_are_read_by_the_decoder_that_has_bounds() -> None:
    """`parse_float=Decimal` takes any exponent, and raises an ArithmeticError for more digits of one."""
    found = [
        str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if "parse_float=Decimal" in path.read_text()
    ]
    assert found == []
