"""Compiled and pure hot modules: which runs is told truly, and compiled files are not older than their sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import pytest

from ottla.wire import build_mode

ROOT = Path(__file__).resolve().parents[2]
MODULES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ottla"]["hot-modules"]


def test_ottla_pure_runs_the_source_of_every_hot_module() -> None:
    ask = "import importlib, sys; print([importlib.import_module(name).__file__ for name in sys.argv[1:]])"
    names = [name for name in MODULES if name != "ottla.wire.columnar_walk"]  # imports mypyc's run-time library
    command = [sys.executable, "-c", ask, *names]
    found = subprocess.run(command, env={**os.environ, "OTTLA_PURE": "1"}, capture_output=True, text=True, check=True)
    files = eval(found.stdout)
    assert len(files) == len(names) and all(file.endswith(".py") for file in files)


def test_the_build_mode_is_what_was_loaded() -> None:
    spec = find_spec("ottla.wire.record_walk")
    assert spec is not None and spec.origin is not None
    assert build_mode() == ("pure" if spec.origin.endswith(".py") else "compiled")


@pytest.mark.parametrize("name", MODULES)
def test_compiled_files_are_newer_than_their_sources(name: str) -> None:
    source = ROOT / "src" / f"{name.replace('.', '/')}.py"
    for suffix in EXTENSION_SUFFIXES:
        compiled = source.with_name(source.stem + suffix)
        if compiled.exists():
            assert compiled.stat().st_mtime >= source.stat().st_mtime, f"{compiled.name} is stale: make install"


def run_tool(root: Path, *arguments: str, **environment: str) -> str:
    command = [sys.executable, str(root / "tools" / "compile_hot.py"), *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_without_a_compiler_the_tool_says_why_and_succeeds() -> None:
    assert run_tool(ROOT, OTTLA_PURE="1") == "hot modules: pure (OTTLA_PURE is set)\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_hot_module_compiles_and_walks_alike(tmp_path: Path) -> None:
    for name in ("src", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert "hot modules: compiled" in run_tool(tmp_path, "--strict", **cache).splitlines()[-1]
    assert run_tool(tmp_path, "--clean").startswith("hot modules: pure")
    assert str(tmp_path / "cache") in run_tool(tmp_path, "--strict", **cache)
    assert "unchanged" in run_tool(tmp_path, "--strict")
    walk = "w.walk_records(bytes(w.build_batch([w.Record()])[61:]), 0, 1)"
    ask = f"import ottla.broker, ottla.wire as w; print(w.build_mode(), {walk})"
    answers = [
        subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True).stdout.split(
            " ", 1
        )
        for env in ({**os.environ, "PYTHONPATH": str(tmp_path / "src"), "OTTLA_PURE": pure} for pure in ("", "1"))
    ]
    assert [mode for mode, _ in answers] == ["compiled", "pure"]
    assert answers[0][1] == answers[1][1]
    assert run_tool(tmp_path, "--clean").startswith("hot modules: pure")
