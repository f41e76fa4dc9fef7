"""Compile the hot modules in place with mypyc, or say in one line why not.

`--clean` removes what was compiled, `--drop-stale` only where it is older than a source, so that nobody tests old code.

Everything runs without it: the modules are ordinary Python. So the exit code is 0 also where there is no C compiler and
where one fails, unless `--strict` is given.

mypyc writes a C file for each module, and as many compilers run as there are processors. What was built is kept in the
user's cache folder under a digest of all sources, of Python and of the compiler: the same checkout, cloned again, does
not compile again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
BUILDS_KEPT_MAX = 4
SECONDS_BETWEEN_LINES = 10.0
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


def compilers_at_once(compiler: Any, count: int, on_file: Callable[[int, int], None] = lambda done, all: None) -> None:
    """Have an extension's C files compiled by `count` compilers at once; setuptools starts one after the other.

    `on_file` is called after each file with how many are done, and how many there are.
    """
    compile_one, compile_all = compiler._compile, compiler.compile

    def compile_files(*args: Any, **options: Any) -> list[str]:
        begun: list[Future[None]] = []
        with ThreadPoolExecutor(count) as pool:
            compiler._compile = lambda *one: begun.append(pool.submit(compile_one, *one))
            objects: list[str] = compile_all(*args, **options)
            for done, each in enumerate(as_completed(begun), 1):
                if each.exception() is not None:
                    pool.shutdown(cancel_futures=True)
                each.result()
                if len(begun) > 1:
                    on_file(done, len(begun))
        return objects

    compiler.compile = compile_files


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _build(folder: str, paths: Sequence[str]) -> None:
    """Translate and compile into `folder`; runs in a process of its own, since both tools change their process."""
    from mypyc.build import mypycify
    from setuptools import setup
    from setuptools.command.build_ext import build_ext

    class Build(build_ext):  # type: ignore[misc]  # setuptools has no types
        def build_extensions(self) -> None:
            compilers_at_once(
                self.compiler, processors(), lambda done, all: print(f"{done} of {all} C files", flush=True)
            )
            super().build_extensions()

    print("translating to C", flush=True)
    extensions = mypycify(
        ["--follow-imports=silent", *paths],
        opt_level="2",
        debug_level="0",
        multi_file=True,
        group_name="ottla",
        target_dir=folder,
    )
    arguments = ["-q", "build_ext", "--build-temp", f"{folder}/temp", "--build-lib", f"{folder}/lib"]
    setup(name="ottla-hot", ext_modules=extensions, script_args=arguments, cmdclass={"build_ext": Build})


def _digest() -> str:
    """Return what names a build: all sources (mypyc looks at the types of what modules import), Python, the compiler."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    told = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    digest = hashlib.sha256(f"{sys.version}|{SUFFIX}|{version('mypy')}|{told}|{platform.machine()}".encode())
    for path in (ROOT / "pyproject.toml", Path(__file__), *sorted((SOURCE / "ottla").rglob("*.py"))):
        digest.update(f"|{path.relative_to(ROOT)}|{path.stat().st_size}|".encode() + path.read_bytes())
    return digest.hexdigest()[:32]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla" / "hot"


def _put_in_place(built: Path) -> None:
    """Replace the compiled modules beside the sources by those in a folder."""
    clean()
    for path in sorted(built.rglob(f"*{SUFFIX}")):
        shutil.copyfile(path, SOURCE / path.relative_to(built))  # with a new time, since the sources may be newer


def _keep(built: Path, kept: Path) -> None:
    """Keep a build for the next clone; only the newest `BUILDS_KEPT_MAX` stay. A cache that cannot be written is none."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix="new-") as folder:
            shutil.copytree(built, Path(folder) / "lib")
            os.replace(Path(folder) / "lib", kept)
        builds = sorted(
            (each for each in kept.parent.iterdir() if each.is_dir()), key=lambda each: each.stat().st_mtime
        )
        for old in builds[:-BUILDS_KEPT_MAX]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return


def taken_from(kept: Path) -> bool:
    """Put a kept build in place; False where there is none."""
    if not any(kept.rglob(f"*{SUFFIX}")):
        return False
    kept.touch()
    _put_in_place(kept)
    return True


def compile_in_place(modules: list[str], kept: Path) -> int:
    """Build in a temporary folder, put the extensions beside their sources, and keep them; return the exit code."""
    paths = [str(SOURCE / f"{module.replace('.', '/')}.py") for module in modules]
    with tempfile.TemporaryDirectory(prefix="ottla-compile-") as folder:
        command = [sys.executable, __file__, "--build", folder, *paths]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
            lines = _shown(run.stdout or ())
        if run.returncode:
            print("".join(lines)[-6000:], file=sys.stderr)
            return run.returncode
        built = Path(folder) / "lib"
        _put_in_place(built)
        _keep(built, kept)
        return 0


def _shown(output: Iterable[str]) -> list[str]:
    """Show how far a build is, on a terminal as one line that changes, else now and then; return all that it said."""
    lines, shown = [], time.monotonic()
    for line in output:
        lines.append(line)
        far = line.strip()
        if far != "translating to C" and not far.endswith(" C files"):
            continue
        if sys.stdout.isatty():
            print(f"\rhot modules: {far}\x1b[K", end="", flush=True)
        elif time.monotonic() - shown >= SECONDS_BETWEEN_LINES:
            print(f"hot modules: {far}", flush=True)
            shown = time.monotonic()
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")
    return lines


def main(arguments: list[str]) -> int:
    """Compile unless nothing has changed; say what runs from now on."""
    if "--build" in arguments:
        _, folder, *paths = arguments
        _build(folder, paths)
        return 0
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
    kept = _cache() / _digest()
    if taken_from(kept):
        print(f"hot modules: compiled ({len(modules)} modules, from {kept.parent})")
        return 0
    started = time.monotonic()
    print(f"Compiling {len(modules)} hot modules (about a minute on two processors)", flush=True)
    status = compile_in_place(modules, kept)
    if status:
        clean()
        print("hot modules: pure (mypyc or the C compiler failed, see above)")
        return 1 if "--strict" in arguments else 0
    print(f"hot modules: compiled ({len(modules)} modules in {time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
