"""Builds the hot modules as C extensions through mypyc (pyproject's `[tool.ottla] hot-modules`); all else is in pyproject.

A wheel is compiled where mypy and a C compiler are found, and pure elsewhere or with OTTLA_PURE=1. An editable install stays
pure: `tools/compile_hot.py` compiles in place.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


class OptionalBuild(build_ext):
    """Builds the extensions; a wheel whose compiler fails is a pure one, and says so."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            if os.environ.get("OTTLA_COMPILE"):
                raise
            print(f"ottla: the hot modules stay pure Python: {error}", file=sys.stderr)
            self.extensions = []


def hot_extensions() -> list[Extension]:
    """Return the extensions to build; none where they are not asked for or mypyc is missing."""
    if os.environ.get("OTTLA_PURE") or not (os.environ.get("OTTLA_COMPILE") or "bdist_wheel" in sys.argv):
        return []
    try:
        from mypyc.build import mypycify
    except ImportError as error:
        print(f"ottla: the hot modules stay pure Python: {error}", file=sys.stderr)
        return []
    modules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ottla"]["hot-modules"]
    paths = [f"src/{module.replace('.', '/')}.py" for module in modules]
    os.chdir(ROOT)
    try:
        # what Ottla depends on is not installed where wheels are built, so its types are unknown there
        options = ["--follow-imports=silent", "--ignore-missing-imports"]
        return mypycify([*options, *paths], opt_level="3", group_name="ottla")
    except SystemExit as error:  # mypyc's way to say that it does not compile
        print(f"ottla: the hot modules stay pure Python: {error}", file=sys.stderr)
        return []


setup(ext_modules=hot_extensions(), cmdclass={"build_ext": OptionalBuild})
