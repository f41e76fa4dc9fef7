"""Ottla as somebody installs it: a wheel made from the sources by pip, in an empty environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.processes import end

__all__ = [
    "ROOT",
    "Installed",
    "Started",
    "bootstrap",
    "checked",
    "clean_environment",
    "copy_of_sources",
    "install",
    "interpreters",
    "started",
    "wheel",
]

ROOT = Path(__file__).resolve().parent.parent.parent
OLDEST, NEWEST = 11, 13
"""Python 3.11 is the oldest that Ottla takes, and 3.13 the newest that its documentation names."""
STOP_SECONDS_MAX = 30
COMMAND_SECONDS_MAX = 120
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "constraints.txt")


def interpreters() -> dict[str, str]:
    """Return this machine's interpreters by version, one for each of 3.11 to 3.13."""
    found: dict[str, str] = {}
    for minor in range(OLDEST, NEWEST + 1):
        managed = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        named = shutil.which(f"python3.{minor}")
        same = sys.version_info[:2] == (3, minor)
        for path in (*(map(str, managed)), *([named] if named else []), *([sys.executable] if same else [])):
            asked = captured([path, "-c", "import platform; print(platform.python_version())"])
            if asked.returncode == 0:
                found[asked.stdout.strip()] = path
                break
    return found


def captured(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command and return what it has said, however it ended."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def copy_of_sources(folder: Path) -> Path:
    """Copy what a checkout holds and pip needs, without what was compiled in place."""
    shutil.copytree(
        ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"), symlinks=True
    )
    (folder / "tools").mkdir()
    shutil.copy2(ROOT / "tools" / "compile_hot.py", folder / "tools")
    for name in SOURCES:
        shutil.copy2(ROOT / name, folder)
    return folder


def clean_environment(changed: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without what would point Python or Ottla at the checkout."""
    kept = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV", "OTTLA_PURE"}}
    return {**kept, **changed}


def wheel(python: str, folder: Path, environment: Mapping[str, str] | None = None) -> Path:
    """Make a wheel as `pip wheel .` does, in an isolated build, from a copy of the sources."""
    (folder / "sources").mkdir(parents=True)
    copy_of_sources(folder / "sources")
    command = [python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), "."]
    checked(command, cwd=folder / "sources", env=clean_environment(environment or {}))
    (found,) = folder.glob("ottla-*.whl")
    return found


def checked(command: Sequence[str], **options: object) -> str:
    """Run a command to its end and return what it prints; raises AssertionError with all that it said when it fails."""
    run = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert run.returncode == 0, f"{command} ended with {run.returncode}:\n{run.stdout}\n{run.stderr}"
    printed: str = run.stdout
    return printed


def install(python: str, folder: Path, package: str) -> Installed:
    """Make an environment with nothing but this package and what it asks for."""
    checked([python, "-m", "venv", str(folder)])
    pinned = ["-c", str(ROOT / "constraints.txt")]
    checked([str(folder / "bin" / "pip"), "install", "--quiet", *pinned, package], env=clean_environment({}))
    return Installed(folder)


def bootstrap(line: str) -> str:
    """Return host and port of a broker's line `ready PLAINTEXT://host:port`."""
    return line.rpartition("//")[2].strip()


@dataclass(frozen=True)
class Started:
    """A process of an installed Ottla, and the lines up to the one that was waited for."""

    process: subprocess.Popen[str]
    lines: list[str]

    def until(self, words: str) -> str:
        """Return the next line with these words; raises AssertionError with everything said where the process ends first."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if words in line:
                return line
        raise AssertionError(f"ended before it said {words!r}:\n" + "".join(self.lines))


@dataclass(frozen=True)
class Installed:
    """An environment with Ottla in it."""

    folder: Path

    def run(self, arguments: str, *, cwd: Path, given: str = "") -> str:
        """Run `ottla …` and return what it prints on standard output."""
        command = [str(self.folder / "bin" / "ottla"), *arguments.split()]
        options = {"cwd": cwd, "env": clean_environment({}), "input": given, "timeout": COMMAND_SECONDS_MAX}
        return checked(command, **options)

    def version(self) -> str:
        """Return all that `ottla --version` says."""
        return checked(["/bin/sh", "-c", f"exec {self.folder}/bin/ottla --version 2>&1"], env=clean_environment({}))

    @contextmanager
    def running(self, arguments: str, *, cwd: Path) -> Iterator[Started]:
        """Run `ottla …` until the block ends."""
        command = [str(self.folder / "bin" / "ottla"), *arguments.split()]
        settings = {"XDG_STATE_HOME": str(cwd / "state"), "PYTHONUNBUFFERED": "1"}
        with started(command, cwd=cwd, env=clean_environment(settings)) as found:
            yield found


@contextmanager
def started(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str]) -> Iterator[Started]:
    """Run a command until the block ends."""
    process = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield Started(process, [])
    finally:
        end(process, STOP_SECONDS_MAX)
