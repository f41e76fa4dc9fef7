"""Compile the hot modules in place with mypyc, or say in one line why not.

`--clean` removes what was compiled, `--drop-stale` only where it is older than a source, so that nobody tests old code.

Everything runs without it: the modules are ordinary Python. So the exit code is 0 also where there is no C compiler and
where one fails, unless `--strict` is given.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def hot_modules() -> list[str]:
    """Return the modules that pyproject lists."""
    modules: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ottla"]["hot-modules"]
    return modules


def missing() -> str | None:
    """Say what is needed and not there; None where nothing is."""
    if os.environ.get("OTTLA_PURE"):
        return "OTTLA_PURE is set"
    for package, name in (("mypyc", "mypy"), ("setuptools", "setuptools")):
        if find_spec(package) is None:
            return f"{name} is not installed"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if not any(shutil.which(each) for each in (compiler, "cc", "gcc", "clang")):
        return "no C compiler was found (Debian, Ubuntu: apt-get install gcc)"
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"Python's headers were not found (Debian, Ubuntu: apt-get install python{version}-dev)"
    return None


def clean() -> None:
    """Remove every compiled module of this interpreter."""
    for path in compiled_files():
        path.unlink()


def compiled_files() -> list[Path]:
    """Return every compiled module, and the library that they share."""
    return [*SOURCE.glob(f"ottla__mypyc*{SUFFIX}"), *(SOURCE / "ottla").rglob(f"*{SUFFIX}")]


def up_to_date(modules: list[str]) -> bool:
    """True where exactly these modules are compiled, each newer than its source."""
    sources = [SOURCE / f"{module.replace('.', '/')}.py" for module in modules]
    compiled = {source.with_name(source.stem + SUFFIX) for source in sources}
    shared = list(SOURCE.glob(f"ottla__mypyc*{SUFFIX}"))
    if not shared or compiled != set((SOURCE / "ottla").rglob(f"*{SUFFIX}")):
        return False
    built = min(path.stat().st_mtime for path in shared)
    return all(source.stat().st_mtime <= built for source in sources)


BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup

folder, *paths = sys.argv[1:]
extensions = mypycify(["--follow-imports=silent", *paths], opt_level="3", group_name="ottla", target_dir=folder)
arguments = ["-q", "build_ext", "--build-temp", folder + "/temp", "--build-lib", folder + "/lib"]
setup(name="ottla-hot", ext_modules=extensions, script_args=arguments)
"""


def compile_in_place(modules: list[str]) -> int:
    """Build in a temporary folder, then put the extensions beside their sources; return the compiler's exit code."""
    paths = [str(SOURCE / f"{module.replace('.', '/')}.py") for module in modules]
    with tempfile.TemporaryDirectory(prefix="ottla-compile-") as folder:
        command = [sys.executable, "-c", BUILD, folder, *paths]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if run.returncode:
            print(run.stdout[-2000:] + run.stderr[-4000:], file=sys.stderr)
            return run.returncode
        clean()
        built = Path(folder) / "lib"
        for path in sorted(built.rglob(f"*{SUFFIX}")):
            shutil.copy2(path, SOURCE / path.relative_to(built))
        return 0


def main(arguments: list[str]) -> int:
    """Compile unless nothing has changed; say what runs from now on."""
    if "--clean" in arguments:
        clean()
        print("hot modules: pure (compiled files removed)")
        return 0
    modules = hot_modules()
    if "--drop-stale" in arguments:
        if not up_to_date(modules) and any(compiled_files()):
            clean()
            print(
                "hot modules: pure (the compiled ones were older than their sources; `make install` compiles them again)"
            )
        return 0
    reason = missing()
    if reason:
        print(f"hot modules: pure ({reason})")
        return 0
    if up_to_date(modules):
        print(f"hot modules: compiled ({len(modules)} modules, unchanged)")
        return 0
    started = time.monotonic()
    status = compile_in_place(modules)
    if status:
        clean()
        print("hot modules: pure (mypyc or the C compiler failed, see above)")
        return 1 if "--strict" in arguments else 0
    print(f"hot modules: compiled ({len(modules)} modules in {time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
