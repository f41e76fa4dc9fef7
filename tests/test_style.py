"""Rules of STYLE.md that a machine can keep. The lists of exceptions only shrink."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests import minutes
from tests.test_architecture import FILES, SOURCE, tree_of

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
BANNED_MODULES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}

LONG_FILES: frozenset[str] = frozenset()
LONG_FUNCTIONS: frozenset[str] = frozenset()

BROAD = {"Exception", "BaseException"}
SILENT = {
    # the same is met again one by one, or in the ordinary way, and told there
    "connect/tasks/loop_source.py: _converted",
    "connect/tasks/record_runs.py: run",
    "connect/tasks/sink_rows.py: _columns",
    "streams/engine/fused.py: run",
    # of a record that is told of already, as text
    "connect/tasks/dead_letters.py: _bytes",
}
"""Broad excepts that say nothing; the list only shrinks."""
SUPPRESSED = {"cli/commands/complete.py"}  # a prompt is no place for errors
"""Files with a `suppress(Exception)`; the list only shrinks."""

OWN_PORTS = {
    "tests/chaos/__main__.py: PORT = 26500",  # in a network namespace of its own
    "tests/cli/test_doctor.py: holder.bind(('127.0.0.1', 0))",  # is held, so that nobody listens there
}
"""Ports that tests have from elsewhere than `tests/ports.py`; the list only shrinks."""
SIMULATED = {9092, 9093}
"""Kafka's own, which stand in tests for what listens in a simulated network."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
NAMED = ast.Assign | ast.AnnAssign | ast.AugAssign


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


def strays() -> Iterator[str]:
    """Yield where a string stands alone that describes nothing: what was above it went elsewhere."""
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            body = node.body if isinstance(node, ast.Module | ast.ClassDef) else []
            for above, each in pairwise(body):
                is_text = isinstance(each, ast.Expr) and isinstance(getattr(each.value, "value", None), str)
                if is_text and (not isinstance(above, NAMED) or each.lineno != (above.end_lineno or 0) + 1):
                    yield where(path, each)


def test_a_text_below_a_name_describes_it() -> None:
    wrong = list(strays())
    assert not wrong, "texts that describe nothing:\n" + "\n".join(wrong)


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


@dataclass(frozen=True)
class BroadExcept:
    """An `except Exception` that does more than put things in order and raise the same again."""

    path: Path
    node: ast.ExceptHandler
    function: str

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(SOURCE)}: {self.function}"

    def has_reason(self) -> bool:
        """True where a comment stands on the line, or first thing in the block."""
        lines = self.path.read_text().splitlines()[self.node.lineno - 1 : self.node.body[0].lineno - 1]
        return any("#" in line for line in lines)

    def reason(self) -> str:
        """Return the comment that says why everything is caught."""
        lines = self.path.read_text().splitlines()[self.node.lineno - 1 : self.node.body[0].lineno - 1]
        return " ".join(line.partition("#")[2] for line in lines)

    def calls(self) -> set[str]:
        """Return the functions that are called."""
        nodes = (each for statement in self.node.body for each in ast.walk(statement))
        return {ast.unparse(each.func) for each in nodes if isinstance(each, ast.Call)}

    def is_told(self) -> bool:
        """True where the error is raised, logged, kept or handed on."""
        for node in (each for statement in self.node.body for each in ast.walk(statement)):
            if isinstance(node, ast.Raise):
                return True
            if isinstance(node, ast.Name) and node.id == self.node.name:
                return True
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("log.", "traceback.format_exc")):
                return True
        return False


def is_broad(caught: ast.expr | None) -> bool:
    """True for what catches our own mistakes too."""
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(kind is None or ast.unparse(kind) in BROAD for kind in kinds)


def broad_excepts() -> Iterator[BroadExcept]:
    """Yield every broad except that does not end by raising the same again."""
    for path in FILES:
        owners: dict[ast.AST, str] = {}
        for node in ast.walk(tree_of(path)):  # outer before inner
            name = node.name if isinstance(node, Function) else owners.get(node, "")
            owners.update(dict.fromkeys(ast.iter_child_nodes(node), name))
            if not isinstance(node, ast.ExceptHandler) or not is_broad(node.type):
                continue
            last = node.body[-1]
            if not (isinstance(last, ast.Raise) and last.exc is None):
                yield BroadExcept(path, node, name)


def test_a_broad_except_says_why() -> None:
    wrong = [f"{where(each.path, each.node)}" for each in broad_excepts() if not each.has_reason()]
    assert not wrong, "a comment behind `except` that says why everything is caught is missing:\n" + "\n".join(wrong)


def test_a_broad_except_is_never_silent() -> None:
    silent = {each.place for each in broad_excepts() if not each.is_told()}
    assert silent == SILENT, f"neither raised, logged nor handed on: {silent - SILENT}, or no longer: {SILENT - silent}"


def test_our_own_mistakes_are_counted() -> None:
    """What is only logged is seen by nobody: what logs a stack counts, or says that it is a plugin's or a user's error."""
    wrong = [
        where(each.path, each.node)
        for each in broad_excepts()
        if "log.exception" in each.calls() and not each.calls() & {"count_failure", "note_failure"}
        if not isinstance(each.node.body[-1], ast.Raise) and not re.search("plugin|user", each.reason())
    ]
    assert not wrong, "`count_failure` (ottla.background) is missing:\n" + "\n".join(wrong)


def test_our_own_mistakes_are_not_called_corruption() -> None:
    """Who cannot read a log gives its partition up; a TypeError of ours must not come to that."""
    wrong = [
        where(each.path, each.node)
        for each in broad_excepts()
        if any(
            "Corrupt" in ast.unparse(statement) or "CORRUPT" in ast.unparse(statement) for statement in each.node.body
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_broad_suppression_is_written_down() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("suppress")
        and any(is_broad(argument) for argument in node.args)
    }
    assert found == SUPPRESSED


def test_module_names_say_what_is_inside() -> None:
    wrong = [str(path.relative_to(SOURCE)) for path in FILES if path.stem in BANNED_MODULES]
    assert not wrong, "\n".join(wrong)


def test_nothing_names_a_machines_path_or_a_registry() -> None:
    root = SOURCE.parent.parent
    pattern = re.compile(r"/(?:root|home|work)/\w+|https?://[\w.-]*(?:pypi|maven|npmjs|crates|pythonhosted)[\w.-]*")
    kinds = {".py", ".md", ".toml", ".txt", ".sh", ".xml", ".json", ".cfg", ".yml", ".yaml", ""}
    skipped = {
        ".git",
        ".venv",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        "build",
        "dist",
        "node_modules",
    }
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


def test_the_tests_budget_leaves_room_for_what_is_to_come() -> None:
    assert sum(minutes.BUDGET.values()) <= minutes.BUDGET_MAX


def test_ports_come_from_one_place() -> None:
    root = SOURCE.parent.parent
    found = {
        f"{path.relative_to(root)}: {said}"
        for folder in ("tests", "tools", "bench")
        for path in sorted((root / folder).rglob("*.py"))
        if path not in (root / "tests" / "ports.py", Path(__file__))
        for said in ports_of_its_own(tree_of(path))
    }
    assert found == OWN_PORTS


def test_a_process_of_tests_has_one_spark_session() -> None:
    tests = Path(__file__).parent
    found = {
        str(path.relative_to(tests))
        for path in tests.rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and node.name == "spark"
    }
    assert found == {"conftest.py"}, "who stops one of its own stops everybody's"


def ports_of_its_own(tree: ast.AST) -> Iterator[str]:
    """Yield the constants that are ports, and where a socket is bound."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".bind"):
            yield ast.unparse(node)
        if not isinstance(node, ast.Assign) or "PORT" not in ast.unparse(node.targets[0]):
            continue
        numbers = (each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant))
        if any(isinstance(number, int) and number > 1023 and number not in SIMULATED for number in numbers):
            yield ast.unparse(node)
