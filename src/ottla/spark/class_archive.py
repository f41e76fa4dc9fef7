"""The JVM's classes in an archive: a session that finds one starts, and plans its first queries, in half the processor time.

Spark loads and verifies about 20,000 classes until a first batch is done. Java keeps what one run has loaded in a file
(class data sharing) and maps it in the next: 6.6 s of the JVM's processor time until a word count's first result in the
place of 12. The first run of some length writes the archive when its JVM ends; the next start takes it where it is whole.
Two runs at most are going to write at once; one that was killed is not counted. The archives that were used last stay,
four of them: two for a Spark, 280 MB.
Java itself looks whether it fits (its own build, the jars and their times) and starts without it where it does not.

`OTTLA_CLASS_ARCHIVES` names the folder in the place of `~/.cache/ottla/classes`; `off` is for none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.spark.java import Java

__all__ = ["FOLDER_VARIABLE", "class_archive_options"]

FOLDER_VARIABLE = "OTTLA_CLASS_ARCHIVES"
OFF = "off"
QUIET = "-Xlog:cds*=off"
"""Java warns of every class that it leaves out, on its standard output, which is ours."""
WHOLE = 0xF00BABA8.to_bytes(4, "little")
"""How a dynamic archive begins; Java writes the beginning last."""
BYTES_MIN = 100 << 20
"""A run that ended early has loaded few classes; the next one tries again."""
FREE_BYTES_MIN = 2 << 30
WRITING_SECONDS_MAX = 3600.0
"""A file that is not whole after that long never will be."""
ARCHIVES_MAX = 4
"""How many archives stay, of other Javas and other jars too; those that were used last."""
WRITERS_MAX = 2
"""How many JVMs may be going to write at once."""


def class_archive_options(
    java: Java, jars: Path, environment: Mapping[str, str] = os.environ, *, with_sql: bool = True
) -> list[str]:
    """Return the JVM's options: to use the archive for this Java and these jars, or to write it; none where none can be.

    Sessions that use Spark's SQL engine have an archive of their own beside that of those which do not.
    """
    folder = _folder(environment)
    if folder is None or " " in str(folder) or not jars.is_dir():
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        archive = folder / f"{_key(java, jars)}{'-sql' if with_sql else ''}.jsa"
        _take(archive)
        _bound(folder, archive)
        if archive.exists():
            with suppress(PermissionError):  # of another user's
                os.utime(archive)  # it is in use
            return [f"-XX:SharedArchiveFile={archive}", QUIET]
        if shutil.disk_usage(folder).free < FREE_BYTES_MIN or len(_written(archive)) >= WRITERS_MAX:
            return []
        path = archive.with_name(f"{archive.stem}.{os.getpid()}.new")
        path.touch()  # so that others know of it; Java makes it anew when the JVM ends
    except OSError:
        return []  # a folder that cannot be written to: the session starts as it would without us
    return [f"-XX:ArchiveClassesAtExit={path}", QUIET]


def _folder(environment: Mapping[str, str]) -> Path | None:
    given = environment.get(FOLDER_VARIABLE)
    if given:
        return None if given == OFF else Path(given)
    cache, home = environment.get("XDG_CACHE_HOME"), environment.get("HOME")
    if cache or home:
        return Path(cache or f"{home}/.cache") / "ottla" / "classes"
    return None


def _key(java: Java, jars: Path) -> str:
    """Return a name that another Java, or other jars, would not have."""
    facts = (str(java.home), (java.home / "bin" / "java").stat().st_mtime_ns, str(jars), jars.stat().st_mtime_ns)
    return f"java-{java.version}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"


def _written(archive: Path) -> list[Path]:
    """Return what JVMs have written, or write, for an archive."""
    return sorted(archive.parent.glob(f"{archive.stem}.*.new"))


def _take(archive: Path) -> None:
    """Take a whole and large file for the archive where there is none; remove what is not needed, or will never be one."""
    for path in _written(archive):
        with suppress(FileNotFoundError):  # another start has taken or removed it
            about = path.stat()
            with path.open("rb") as file:
                whole = file.read(len(WHOLE)) == WHOLE
            if not about.st_size and not _runs(path):
                path.unlink()  # its session was killed; where the JVM still ends, it makes the file anew
            elif whole and about.st_size >= BYTES_MIN and not archive.exists():
                path.replace(archive)
                os.utime(archive)
            elif whole or time.time() - about.st_mtime > WRITING_SECONDS_MAX:
                path.unlink()


def _runs(path: Path) -> bool:
    """Return whether the process that asked for a file still runs, as its name says who it was."""
    asked_by = path.suffixes[-2].removeprefix(".")
    return asked_by.isdecimal() and Path("/proc", asked_by).exists()


def _bound(folder: Path, wanted: Path) -> None:
    """Remove archives beyond the bound, and what was written for others of them and never taken.

    A JVM that has one mapped keeps what it has.
    """
    used: list[tuple[float, Path]] = []
    for path in folder.glob("java-*"):
        with suppress(FileNotFoundError, PermissionError):  # another start has removed it; another user's
            about = path.stat()
            if path.suffix == ".jsa" and path != wanted:
                used.append((about.st_mtime, path))
            elif path.suffix == ".new" and not _runs(path) and time.time() - about.st_mtime > WRITING_SECONDS_MAX:
                path.unlink()
    for _, path in sorted(used, reverse=True)[ARCHIVES_MAX - 1 :]:
        with suppress(FileNotFoundError, PermissionError):
            path.unlink()
