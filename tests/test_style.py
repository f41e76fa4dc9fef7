"""Rules of STYLE.md that a machine can keep. The lists of exceptions only shrink."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_architecture import FILES, SOURCE, tree_of

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
BANNED_MODULES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}

LONG_FILES: frozenset[str] = frozenset()
LONG_FUNCTIONS: frozenset[str] = frozenset()

Function = ast.FunctionDef | ast.AsyncFunctionDef


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 1)}"


def definitions(tree: ast.Module) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Yield (dotted name, node) of public and private classes and functions, not of nested functions."""
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, Function):
                    yield f"{node.name}.{child.name}", child


def test_files_tell_one_story() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}: {lines} lines"
        for path in FILES
        if (lines := len(path.read_text().splitlines())) > FILE_LINES_MAX
        and str(path.relative_to(SOURCE)) not in LONG_FILES
    ]
    assert not wrong, f"over {FILE_LINES_MAX} lines:\n" + "\n".join(wrong)


def test_functions_stay_short() -> None:
    wrong = []
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, Function):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX and node.name not in LONG_FUNCTIONS:
                    wrong.append(f"{where(path, node)}: {node.name} has {lines} lines")
    assert not wrong, f"over {FUNCTION_LINES_MAX} lines:\n" + "\n".join(wrong)


def test_public_names_are_documented() -> None:
    wrong = []
    for path in FILES:
        tree = tree_of(path)
        if not ast.get_docstring(tree):
            wrong.append(f"{path.relative_to(SOURCE)}: no module docstring")
        for name, node in definitions(tree):
            public = not any(part.startswith("_") for part in name.split("."))
            if public and not ast.get_docstring(node) and not is_override(node):
                wrong.append(f"{where(path, node)}: {name}")
    assert not wrong, "without a docstring:\n" + "\n".join(wrong)


def is_override(node: ast.AST) -> bool:
    """True for a method whose meaning stands in the protocol or base class that it implements."""
    decorators = getattr(node, "decorator_list", [])
    return any(
        ast.unparse(each) in {"override", "typing.override", "overload"} or ".setter" in ast.unparse(each)
        for each in decorators
    )


def test_no_bare_except_and_no_swallowed_error() -> None:
    wrong = []
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            broad = node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"}
            if (
                broad and all(isinstance(statement, ast.Pass | ast.Continue) for statement in node.body)
            ) or node.type is None:
                wrong.append(where(path, node))
    assert not wrong, "bare or swallowing except:\n" + "\n".join(wrong)


def test_module_names_say_what_is_inside() -> None:
    wrong = [str(path.relative_to(SOURCE)) for path in FILES if path.stem in BANNED_MODULES]
    assert not wrong, "\n".join(wrong)


def test_nothing_names_a_machines_path_or_a_registry() -> None:
    root = SOURCE.parent.parent
    pattern = re.compile(r"/(?:root|home|work)/\w+|https?://[\w.-]*(?:pypi|maven|npmjs|crates|pythonhosted)[\w.-]*")
    kinds = {".py", ".md", ".toml", ".txt", ".sh", ".xml", ".json", ".cfg", ".yml", ".yaml", ""}
    skipped = {".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "build", "dist"}
    wrong = []
    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.suffix not in kinds or skipped & set(path.relative_to(root).parts):
            continue
        if ".egg-info" in str(path) or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if pattern.search(line):
                wrong.append(f"{path.relative_to(root)}:{number}: {line.strip()[:100]}")
    assert not wrong, "\n".join(wrong)
