"""The packages keep their directions, kinds and public APIs (ARCHITECTURE.md)."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "ottla"

_SERVICES = {"base", "background", "config", "http", "service", "client"}
MATRIX: dict[str, set[str]] = {
    "base": set(),
    "background": set(),
    "java": {"base"},
    "wire": {"base"},
    "raft": {"base", "wire"},
    "replica": {"base"},
    "security": {"base", "java"},
    "config": {"base", "java"},
    "log": {"base", "wire"},
    "net": {"base", "wire"},
    "client": {"base", "background", "wire", "net", "security", "config"},
    "metadata": {"base", "java", "wire", "security", "config"},
    "groups": {"base", "java", "wire", "security", "config"},
    "transactions": {"base", "java", "wire", "security", "config"},
    "http": {"base", "background", "config", "security"},
    "service": {"base", "background", "http", "client"},
    "admin": {"base", "wire", "client", "config", "metadata", "security"},
    "broker": {
        *("base", "background", "wire", "raft", "replica", "security", "config", "log", "net", "client"),
        *("metadata", "groups", "transactions", "http", "service"),
    },
    "streams": {"base", "java", "config"},
    "schemas": {"base", "java"},
    "registry": {*_SERVICES, "wire", "schemas", "security"},  # who asks, by tokens and certificates, and by whose ACLs
    "serdes": {"base", "security", "schemas"},
    "connect": {*_SERVICES, "java", "wire", "security", "schemas", "serdes"},
    "connectors": {"base", "background", "java", "config", "connect"},
    "mirror": {"base", "background", "java", "wire", "client", "config", "connect", "admin", "security"},
    "sql": {
        "base",
        "java",
        "streams",
        "schemas",
        "serdes",
        "connect",
    },  # schemas of formats, as Connect has them
    "spark": {
        *("base", "background", "wire", "client", "config", "security", "http", "service", "streams"),
        *("connect", "connectors"),
        *("mirror", "java"),
        *("schemas", "serdes"),  # columns and serdes by a registry
    },
    "sql_server": {*_SERVICES, "java", "wire", "security", "streams", "sql", "spark", "registry", "schemas", "serdes"},
    "testing": {"base", "background", "wire", "client", "admin", "config", "log", "net", "broker"},
    "console": {*_SERVICES, "wire", "admin", "sql", "schemas", "serdes", "security"},  # who logs in, schemas in files
}
"""Package -> the packages that it may import. `cli` may import any, but all except `admin` only inside functions."""

PURE = {
    *("base", "wire", "raft", "metadata", "replica", "groups", "transactions", "security", "config", "streams"),
    *("schemas", "sql", "java"),
}
PURE_PARTS = {
    f"connect/{part}"
    for part in ("converters", "data", "assignment", "decisions", "error_policy", "storage", "transforms")
} | {"registry/core"}
"""Packages that are pure inside one that is not; they import `base`, `java`, `config` and `schemas` only."""
DISK = {"log"}
WORLD = {"asyncio", "socket", "threading", "time", "random", "os", "subprocess", "selectors", "multiprocessing"}
DOORS = {
    *(
        ("log", "os_disk.py"),
        ("security", "key_file.py"),
        ("security", "key_reader.py"),
        ("security", "gss.py"),
        ("config", "providers.py"),
        ("config", "whole_files.py"),
    ),
    ("java", "stopwatch.py"),
    *(("schemas", "compiler.py"), ("schemas", "compiler_process.py")),
}
"""The files of a pure or a disk package that may touch the operating system: what they do has no other way."""

INNER_PACKAGES = (
    "ottla.admin.actions",  # plans of all that is changed: who only asks, or has options of its own, does without
    *("ottla.wire.messages", "ottla.client.arrow", "ottla.connect.tasks"),
    *("ottla.security.ephemeral", "ottla.security.sasl"),
    "ottla.connect.schema_converters",  # how Connect's schemas are told in Avro, Protobuf and JSON Schema
    "ottla.connect.data",
    "ottla.serdes.columns",
    *(
        "ottla.sql.answers",
        "ottla.sql.commands",
    ),  # what a server needs: plans and topologies, so all of SQL and Streams
    *("ottla.sql.tree", "ottla.sql.types", "ottla.sql.expressions"),  # values, and closures over rows
    "ottla.sql.testing",  # what tests of statements need, Streams with its engine among it; nothing else of SQL does
)
"""What is inside a package and others may import: it needs PyArrow, librdkafka or ssl, which the package alone does not."""

PACKAGES = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
FILES = sorted(path for path in SOURCE.rglob("*.py") if "messages" not in path.parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def package_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


def typing_only(tree: ast.Module) -> set[ast.AST]:
    """Return the nodes under `if TYPE_CHECKING:`."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                found.update(ast.walk(child))
    return found


def imports(path: Path, *, top_level_only: bool = False) -> list[tuple[str, tuple[str, ...], int]]:
    """Return (module, names, line) of every absolute import of a file."""
    tree = tree_of(path)
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    skipped = typing_only(tree)
    found: list[tuple[str, tuple[str, ...], int]] = []
    for node in nodes:
        if top_level_only and node in skipped:
            continue
        if isinstance(node, ast.Import):
            found.extend((alias.name, (), node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found.append((node.module or "", tuple(alias.name for alias in node.names), node.lineno))
    return found


def packages_imported(path: Path, *, top_level_only: bool = False) -> list[tuple[str, str, int]]:
    """Return (package, module, line) of every import of a package."""
    found: list[tuple[str, str, int]] = []
    for module, names, line in imports(path, top_level_only=top_level_only):
        if module == "ottla":
            found.extend((name, f"ottla.{name}", line) for name in names if name in PACKAGES)
        elif module.startswith("ottla."):
            found.append((module.split(".")[1], module, line))
    return found


@pytest.mark.parametrize("package", [package for package in PACKAGES if package != "cli"])
def test_packages_import_downwards_only(package: str) -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {package} may not import {module}"
        for path in FILES
        if package_of(path) == package
        for other, module, line in packages_imported(path)
        if other != package and other not in MATRIX[package] and other in PACKAGES
    ]
    assert not wrong, "\n".join(wrong)


def test_packages_import_each_others_public_api_only() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {module} is inside {other}; import its public API"
        for path in FILES
        for other, module, line in packages_imported(path)
        if other in PACKAGES
        and other != package_of(path)
        and module.count(".") > 1
        and not module.startswith(INNER_PACKAGES)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ["cli", "admin"])
def test_the_command_line_and_what_it_stands_on_import_packages_inside_functions_only(package: str) -> None:
    allowed = {"cli", "admin", "base"}
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {module} at top level slows `ottla --help`"
        for path in FILES
        if package_of(path) == package
        for other, module, line in packages_imported(path, top_level_only=True)
        if other not in allowed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", [package for package in PACKAGES if package in PURE | DISK])
def test_pure_packages_do_not_touch_the_world(package: str) -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {module}"
        for path in FILES
        if package_of(path) == package and (package, path.name) not in DOORS
        for module, _, line in imports(path)
        if module.split(".")[0] in WORLD
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("part", sorted(PURE_PARTS))
def test_pure_parts_do_not_touch_the_world(part: str) -> None:
    package = part.split("/")[0]
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {module}"
        for path in sorted((SOURCE / part).rglob("*.py"))
        for module, _, line in imports(path)
        if module.split(".")[0] in WORLD
        or (module.startswith("ottla.") and module.split(".")[1] not in {"base", "java", "config", "schemas", package})
    ]
    assert (SOURCE / part).is_dir() and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_description_and_a_public_api(package: str) -> None:
    tree = tree_of(SOURCE / package / "__init__.py")
    docstring = ast.get_docstring(tree) or ""
    assert len(docstring) > 40, f"{package}/__init__.py needs a paragraph that says what the package is for"
    if package == "cli":
        return
    names = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    assert "__all__" in names, f"{package}/__init__.py needs __all__"


@pytest.mark.parametrize(
    "package", ["ottla.client", "ottla.connect.tasks", "ottla.spark", "ottla.testing", "ottla.wire"]
)
def test_what_a_package_imports_late_is_what_type_checkers_see(package: str) -> None:
    module = import_module(package)
    for node in typing_only(tree_of(SOURCE.joinpath(*package.split(".")[1:], "__init__.py"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            home = import_module(node.module)
            for alias in node.names:
                assert getattr(module, alias.name) is getattr(home, alias.name), alias.name
    assert all(hasattr(module, name) for name in module.__all__)


def test_only_the_spark_package_imports_pyspark() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {module}"
        for path in FILES
        if package_of(path) != "spark"
        for module, _, line in imports(path)
        if module.split(".")[0] == "pyspark"
    ]
    assert not wrong, "\n".join(wrong)


SPARKS_PRIVATE = re.compile(
    r"_(j(conf|df|map|q|rdd|reader|sc|schema|seq|spark\w*|sq|tc|vm|write)|gateway|sc|active_spark_context"
    r"|instantiatedSession)|java_exception"
)
"""Attributes of PySpark's and Py4J's objects that lead into the JVM or behind PySpark's back."""
SPARKS_PUBLIC = re.compile(r"pyspark(\.errors|\.sql(\.(datasource|functions|types|streaming(\.\w+)?))?)?")
"""The modules that Spark's documentation names."""
PRIVATE_API = SOURCE / "spark" / "private_api"


def test_only_private_api_touches_what_spark_does_not_document() -> None:
    wrong = []
    for path in FILES:
        if path.is_relative_to(PRIVATE_API):
            continue
        for node in ast.walk(tree_of(path)):
            names = {ast.Attribute: "attr", ast.Constant: "value"}
            name = getattr(node, names.get(type(node), ""), None)
            if isinstance(name, str) and SPARKS_PRIVATE.fullmatch(name):
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {name}")  # type: ignore[attr-defined]
        for module, names_of, line in imports(path):
            hidden = [each for each in names_of if module == "pyspark" and each.islower()]
            foreign = module.split(".")[0] == "pyspark" and not SPARKS_PUBLIC.fullmatch(module)
            if hidden or foreign or module.split(".")[0] == "py4j":
                wrong.append(f"{path.relative_to(SOURCE)}:{line}: {module} {' '.join(hidden)}")
    assert not wrong, "move it to ottla.spark.private_api, with a test:\n" + "\n".join(wrong)


PLANNING = {"physical", "plan_words", "planning", "record_times"}
"""The modules of `spark/streams/lowering` that choose how a stage runs; the others build what they chose."""


def test_how_a_stage_runs_is_chosen_without_spark() -> None:
    folder = SOURCE / "spark" / "streams" / "lowering"
    own = {f"ottla.spark.streams.lowering.{name}" for name in PLANNING}
    allowed = {*own, "ottla.streams", "__future__", "collections", "collections.abc", "dataclasses", "typing"}
    wrong = [
        f"{name}.py:{line}: {module}"
        for name in sorted(PLANNING)
        for module, _, line in imports(folder / f"{name}.py")
        if module not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def module_name(path: Path) -> str:
    parts = ("ottla", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


CYCLES = {
    "streams.dsl.*": "A stream has methods that return tables, and a table has methods that return streams.",
}
"""The circles of modules that there are, each with its reason; this list only shrinks."""


def import_graph() -> dict[str, set[str]]:
    """Return which module imports which, wherever in it the import stands: under TYPE_CHECKING and in functions, too."""
    modules = {module_name(path): path for path in FILES}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        edges: set[str] = set()
        for module, names, _ in imports(path):
            inner = {f"{module}.{each}" for each in names} & modules.keys()
            edges |= inner
            if module in modules and len(inner) < max(len(names), 1):
                edges.add(module)
        graph[name] = edges - {name}
    return graph


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules of which each reaches each other one (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        open_.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in open_:
                lowest[name] = min(lowest[name], order[other])
        if lowest[name] == order[name]:
            at = open_.index(name)
            found.append(set(open_[at:]))
            del open_[at:]

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return [each for each in found if len(each) > 1]


def cycle_name(cycle: set[str]) -> str:
    packages = {name.rpartition(".")[0].removeprefix("ottla.") for name in cycle}
    if len(cycle) > 5 and len(packages) == 1:
        return f"{packages.pop()}.*"
    return " ".join(sorted(name.removeprefix("ottla.") for name in cycle))


def test_no_import_cycles_but_those_that_are_written_down() -> None:
    found = {cycle_name(cycle) for cycle in cycles(import_graph())}
    assert found == CYCLES.keys(), f"new: {sorted(found - CYCLES.keys())}; gone: {sorted(CYCLES.keys() - found)}"


MODULES_MAX = 40
ONE_FILE_PER_THING = {"ottla.broker.api", "ottla.cli.commands"}
"""Packages that hold one module for each API or command. Messages are generated, and not counted."""


def test_packages_are_small_enough_to_know() -> None:
    found: dict[str, int] = {}
    for path in FILES:
        package = module_name(path.with_name("__init__.py"))
        found[package] = found.get(package, 0) + (path.name != "__init__.py")
    large = {name: count for name, count in found.items() if count > MODULES_MAX}
    assert large.keys() == ONE_FILE_PER_THING, f"divide it: {large}"


def test_compiled_modules_ask_no_error_for_its_cause() -> None:
    """Where mypyc has compiled `raise … from …`, the error has no `__cause__`: what pure Python finds there is lost."""
    hot = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["tool"]["ottla"]["hot-modules"]
    asked = [
        f"{path.name}:{node.lineno}"
        for path in FILES
        if module_name(path) in hot
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr in ("__cause__", "__context__")
    ]
    assert hot and not asked
