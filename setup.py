"""Builds the hot modules as C extensions through mypyc (pyproject's `[tool.ottla] hot-modules`); all else is in pyproject.

A wheel is compiled where a C compiler is found, and pure elsewhere or with OTTLA_PURE=1. pip shows nothing that a build
prints, so what became of it, and why, is written into the wheel (`ottla/build_record.json`): `ottla --version` and the
server tell. With OTTLA_COMPILE=1 a wheel that cannot be compiled is not built at all. An editable install stays pure:
`tools/compile_hot.py` compiles in place.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

if sys.version_info < (3, 11):  # noqa: UP036  pip looks at `requires-python` only when this file has run
    raise SystemExit("Ottla needs Python 3.11 or later, and this is %d.%d" % sys.version_info[:2])  # noqa: UP031

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

from compile_hot import compilers_at_once, hot_modules, missing, processors  # noqa: E402  beside this file, found by the line above

STRICT = "OTTLA_COMPILE"
reasons: list[str] = []
"""Why this wheel is pure against all wishes; nothing where it is not."""


def stay_pure(reason: str) -> None:
    """Note why the wheel is pure, and say it; raises where it has to be compiled."""
    reasons.append(reason)
    print(f"ottla: the hot modules stay pure Python: {reason}", file=sys.stderr)
    if os.environ.get(STRICT):
        raise RuntimeError(f"{STRICT} is set, and the hot modules cannot be compiled: {reason}")


class OptionalBuild(build_ext):
    """Builds the extensions; a wheel whose compiler fails is a pure one, and says so."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # setuptools raises many kinds, and a wheel without extensions works as well
            stay_pure(f"the C compiler failed ({type(error).__name__}: {error})")
            self.forget()

    def build_extensions(self) -> None:
        compilers_at_once(self.compiler, processors())
        super().build_extensions()

    def forget(self) -> None:
        """Leave nothing of what was built before the failure: a module without the library that all share cannot load."""
        for path in Path(self.build_lib).rglob("*.so"):
            path.unlink()
        self.extensions = self.distribution.ext_modules = []
        if "bdist_wheel" in sys.argv:
            self.get_finalized_command("bdist_wheel").root_is_pure = True  # else it would be for this machine only


class RecordedBuild(build):
    """Builds all, then writes into the package what became of the hot modules, and the examples (`ottla examples`)."""

    def run(self) -> None:
        super().run()
        if "bdist_wheel" in sys.argv:
            kind = "compiled" if self.distribution.has_ext_modules() else "pure"
            record = {"build": kind, "reason": "; ".join(reasons)}
            path = Path(self.build_lib) / "ottla" / "build_record.json"
            path.write_text(json.dumps(record) + "\n")
            left_out = shutil.ignore_patterns("__pycache__", "etl")  # which needs a checkout's tools
            target = Path(self.build_lib) / "ottla" / "cli" / "examples"
            shutil.copytree(ROOT / "examples", target, ignore=left_out, dirs_exist_ok=True)


def hot_extensions() -> list[Extension]:
    """Return the extensions to build; none where they are not asked for or cannot be made."""
    if not (os.environ.get(STRICT) or "bdist_wheel" in sys.argv):
        return []
    if os.environ.get("OTTLA_PURE"):
        return []  # as was asked for, so there is nothing to tell
    if (reason := missing()) is not None:
        stay_pure(reason)
        return []
    from mypyc.build import mypycify

    paths = [f"src/{module.replace('.', '/')}.py" for module in hot_modules()]
    os.chdir(ROOT)
    # A build is no type check, so pyproject's strict options do not hold here: what Ottla depends on is not installed
    # where wheels are built, and a name of unknown type is an error under them.
    options = ["--config-file=", "--follow-imports=silent", "--ignore-missing-imports", "--python-version"]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        extensions = mypycify(
            [*options, version, *paths], opt_level="2", debug_level="0", multi_file=True, group_name="ottla"
        )
    except SystemExit as error:  # mypyc's way to say that it does not compile; it has printed what
        stay_pure(f"mypyc refused them (exit code {error.code}; `pip -v` shows what it said)")
        return []
    for extension in extensions:  # symbols are half of the file, and nobody debugs a wheel by them
        extension.extra_link_args = [
            *(extension.extra_link_args or []),
            *(["-Wl,-s"] if sys.platform == "linux" else []),
        ]
    return extensions


setup(ext_modules=hot_extensions(), cmdclass={"build": RecordedBuild, "build_ext": OptionalBuild})
