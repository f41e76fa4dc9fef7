"""Every file that uses the tests' Spark session is dealt to the one process that has it."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.dealing import SPARK, piece_of
from tests.test_architecture import tree_of

TESTS = Path(__file__).parent


def test_every_file_that_uses_the_session_goes_to_one_process() -> None:
    using = {
        f"tests/{path.relative_to(TESTS)}"
        for path in TESTS.rglob("test_*.py")
        if "spark: " in path.read_text()  # to read all files as trees takes seconds
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.arg) and ast.unparse(node) in ("spark: SparkSession", "spark: Any")
    }
    assert using and {piece_of(each) for each in using} == {SPARK}
    assert piece_of("tests/wire/test_framing.py") == "tests/wire/test_framing.py"
