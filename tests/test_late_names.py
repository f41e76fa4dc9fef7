"""Names that packages import when they are asked for: those that are promised, whoever asks, and how many at once."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_architecture import SOURCE

AT_ONCE = """
import sys, threading
from importlib import import_module
package = import_module(sys.argv[1])
sys.setswitchinterval(1e-6)
wrong, start = [], threading.Barrier(8)

def ask(names):
    start.wait()
    for name in names:
        try:
            getattr(package, name)
        except BaseException as error:
            wrong.append((name, repr(error)))

asking = [threading.Thread(target=ask, args=(package.__all__[at::8],)) for at in range(8)]
for each in asking:
    each.start()
for each in asking:
    each.join()
sys.exit(str(wrong) if wrong else 0)
"""


def lazy() -> list[str]:
    """Return the packages that have such names."""
    inits = sorted(Path(SOURCE).rglob("__init__.py"))
    return [
        ".".join(("ottla", *each.parent.relative_to(SOURCE).parts))
        for each in inits
        if "late_imports(__name__" in each.read_text()
    ]


def promised(package: ModuleType) -> dict[str, str]:
    """Return what a type checker is told: each name and the module that it is imported from."""
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text())
    kinds = [each for each in tree.body if isinstance(each, ast.If) and getattr(each.test, "id", "") == "TYPE_CHECKING"]
    imports = [each for kind in kinds for each in kind.body if isinstance(each, ast.ImportFrom)]
    return {alias.asname or alias.name: each.module or "" for each in imports for alias in each.names}


@pytest.mark.parametrize("name", lazy())
def test_a_late_name_is_the_one_that_a_type_checker_sees(name: str) -> None:
    package = import_module(name)
    for each, home in promised(package).items():
        assert getattr(package, each) is getattr(import_module(home), each), each
    star: dict[str, object] = {}
    exec(f"from {name} import *", star)
    assert set(package.__all__) <= set(star)


@pytest.mark.parametrize("name", lazy())
def test_no_late_name_is_that_of_a_module_beside_it(name: str) -> None:
    """Importing the module would put it in the name's place, for everybody, from then on."""
    package = import_module(name)
    [folder] = package.__path__
    modules = {each.stem for each in Path(folder).iterdir() if each.suffix == ".py" or each.is_dir()}
    assert not modules & set(promised(package))
    assert not [each for each in package.__all__ if isinstance(getattr(package, each), ModuleType)]


@pytest.mark.parametrize("name", lazy())
def test_a_late_class_is_pickled_by_its_module(name: str) -> None:
    package = import_module(name)
    classes = [found for each in promised(package) if isinstance(found := getattr(package, each), type)]
    for each in classes:
        assert pickle.loads(pickle.dumps(each)) is each


@pytest.mark.parametrize(
    "name", ["ottla.admin", "ottla.client", "ottla.config", "ottla.security", "ottla.security.sasl"]
)
def test_threads_may_ask_for_all_late_names_at_once(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, name], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
