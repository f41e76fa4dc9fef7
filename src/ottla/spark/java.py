"""Which Java runs Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["JAVA_VERSION_MIN", "Java", "find_java", "java_missing"]

JAVA_VERSION_MIN = 17
"""Spark 4 runs on Java 17 or later."""
INSTALLED_UNDER = Path("/usr/lib/jvm")
ANSWER_SECONDS_MAX = 20


@dataclass(frozen=True)
class Java:
    """A Java runtime: the value for JAVA_HOME, and its feature version."""

    home: Path
    version: int


def find_java(environ: Mapping[str, str] | None = None) -> Java | None:
    """Return the first Java that Spark can run on: JAVA_HOME's, the one on PATH, an installed one; or None.

    A JAVA_HOME that is no Java's is somebody's mistake, and not passed over.
    """
    if _no_java_in_home(os.environ if environ is None else environ) is not None:
        return None
    return next((java for java in _found(os.environ if environ is None else environ) if _suits(java)), None)


def java_missing(environ: Mapping[str, str] | None = None) -> str | None:
    """Return one line that says what to install where no Java suits, else None."""
    if find_java(environ) is not None:
        return None
    if (home := _no_java_in_home(os.environ if environ is None else environ)) is not None:
        return f"JAVA_HOME is {home}, where no Java is (there is no bin/java that runs): mend it, or unset it"
    found = list(_found(os.environ if environ is None else environ))
    have = f" (found: {', '.join(f'{java.version} in {java.home}' for java in found)})" if found else ""
    return (
        f"Spark needs Java {JAVA_VERSION_MIN} or later{have}: install one "
        "(Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    )


def _no_java_in_home(environ: Mapping[str, str]) -> str | None:
    """Return JAVA_HOME where it is set and no Java is there."""
    home = environ.get("JAVA_HOME")
    return home if home and _version(Path(home)) is None else None


def _suits(java: Java) -> bool:
    return java.version >= JAVA_VERSION_MIN


def _found(environ: Mapping[str, str]) -> Iterator[Java]:
    """Yield the Javas of this machine, the likeliest first."""
    homes = [Path(environ["JAVA_HOME"])] if environ.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        homes.append(Path(on_path).resolve().parent.parent)
    if INSTALLED_UNDER.is_dir():
        homes += sorted(INSTALLED_UNDER.iterdir(), reverse=True)
    for home in dict.fromkeys(homes):
        version = _version(home)
        if version is not None:
            yield Java(home, version)


@cache
def _version(home: Path) -> int | None:
    """Return a Java's feature version, as its `release` file says or, without one, as it answers; None where it is none."""
    noted = _noted_version(home)
    if noted is not None:
        return noted
    try:
        answer = subprocess.run(
            [str(home / "bin" / "java"), "-version"],
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS_MAX,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def _noted_version(home: Path) -> int | None:
    """Read the version in the file that every JDK since 9 has: starting a JVM for it takes a tenth of a second or more."""
    try:
        found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text(), re.MULTILINE)
        runs = os.access(home / "bin" / "java", os.X_OK)
    except (OSError, UnicodeDecodeError):
        return None
    return int(found.group(1)) if found and runs else None
