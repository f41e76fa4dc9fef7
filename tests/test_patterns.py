"""Patterns that come from outside are compiled by `ottla.java` alone; our own are literals, or are listed here."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "ottla"
FILES = sorted(path for path in SOURCE.rglob("*.py") if "messages" not in path.parts and path.parts[-3] != "java")
ENGINES = {"re", "regex", "re2", "fnmatch"}
TAKES_PATTERN = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn", "template"}

OWN = {
    "cli/records/positions.py": "our own span, repeated",
    "config/secrets.py": "our own words, with bounds",
    "connect/data/date_format.py": "digits, as many as a date's field has",
    "connectors/cdc/mysql/ddl_words.py": "a quotation mark of SQL's",
    "connectors/jdbc/sink_times.py": "our own parts of days and times of day",
    "connectors/postgres_text.py": "our own parts of a time",
    "connectors/storage/names.py": "a topic and a delimiter, both escaped",
    "console/records/fixes.py": "a mark of our own making",
    "registry/access.py": "names from the service's own configuration, escaped",
    "sql/lowering/__init__.py": "our own names of topics, the service's id escaped",
    "schemas/avro/reading.py": "our own parts of a number",
    "schemas/json_schema/drafts.py": "a schema's pattern: RE2's, with a limit of memory; Python only reads what RE2 refuses",
    "sql/functions/java_uri.py": "our own classes of characters",
    "sql/lexer.py": "our own tokens, with and without comments",
}
"""Files that build patterns of their own, and of what; no text of a user's that is not escaped is among it."""
OTHER_ENGINES = {
    "schemas/json_schema/drafts.py": "re2",
    "console/records/file_decoders.py": "fnmatch",
    "console/records/masks.py": "fnmatch",
}
"""What else uses an engine: RE2 is linear, and `fnmatch` writes its wildcards so that none is tried twice."""


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def _may(path: Path) -> bool:
    """Return whether a file names an engine at all: most need not be parsed."""
    text = path.read_text()
    return any(f"import {engine}" in text or f"from {engine} " in text for engine in ENGINES)


def _literals(tree: ast.Module) -> set[str]:
    """Return module-level names that stand for a text of this file."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _built(path: Path) -> list[int]:
    """Return the lines on which a file compiles anything but a literal."""
    if not _may(path):
        return []
    tree = _tree(path)
    literals = _literals(tree)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ENGINES
        for alias in node.names
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        of_module = (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id in ENGINES
            and function.attr in TAKES_PATTERN
        )
        by_name = isinstance(function, ast.Name) and function.id in imported & TAKES_PATTERN
        if not (of_module or by_name):
            continue
        given = (
            node.args[0] if node.args else next((each.value for each in node.keywords if each.arg == "pattern"), None)
        )
        is_literal = isinstance(given, ast.Constant) or (isinstance(given, ast.Name) and given.id in literals)
        if not is_literal:
            found.append(node.lineno)
    return found


def test_only_ottla_java_compiles_patterns_that_are_no_literals() -> None:
    wrong = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in FILES
        for line in _built(path)
        if str(path.relative_to(SOURCE)) not in OWN
    }
    assert not wrong, f"use ottla.java.compile_java, compile_re2 or Wildcards for what a user gives: {sorted(wrong)}"


def test_files_that_build_patterns_of_their_own_still_do() -> None:
    assert all(_built(SOURCE / each) for each in OWN)


@pytest.mark.parametrize("engine", ["re2", "regex", "fnmatch"])
def test_other_engines_are_used_in_listed_places_only(engine: str) -> None:
    using = {
        str(path.relative_to(SOURCE))
        for path in FILES
        if _may(path)
        for node in ast.walk(_tree(path))
        if (isinstance(node, ast.Import) and any(alias.name == engine for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == engine)
    }
    assert using == {path for path, named in OTHER_ENGINES.items() if named == engine}
