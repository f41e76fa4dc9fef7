"""A user's module goes to Spark's workers: by value where it is the application's file, as a zip where it is beside it."""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ottla.spark.private_api.workers import by_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams import StreamsSettings

__all__ = ["modules_beside", "ottla_archive", "packed", "ship_by_value", "ship_files", "ship_module"]

UNCHECKED = b"\x01\0\0\0"
"""Bytecode's flags: named by its source's hash, which nobody checks (PEP 552)."""
_beside: dict[str, Path] = {}
"""Modules that are to be sent to the workers of sessions made later: name → file."""


def ship_module(module: ModuleType, settings: StreamsSettings) -> None:
    """Have a module's functions and classes pickled by value, so that workers need not import it.

    What it has imported from its own folder is sent as files when the session starts (`ship_files`), and found by local
    workers through PYTHONPATH at once.
    """
    by_value(module)
    folder = str(Path(module.__file__ or ".").resolve().parent)
    if settings["spark.master"].startswith("local"):
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if folder not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, *paths]))
    _beside.update(modules_beside(module))


def ship_by_value(module: ModuleType) -> None:
    """Have a module's functions and classes, and those of what lies beside it, pickled by value.

    For hosts that run already, which import nothing that comes later.
    """
    by_value(module)
    for name in modules_beside(module):
        by_value(sys.modules[name])


def modules_beside(module: ModuleType) -> dict[str, Path]:
    """Return the modules that were imported from a module's folder, without itself: name → file."""
    folder = Path(module.__file__ or ".").resolve().parent
    found: dict[str, Path] = {}
    for name, other in list(sys.modules.items()):
        file = getattr(other, "__file__", None)
        if other is module or not file or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(folder) and "site-packages" not in path.parts and ".venv" not in path.parts:
            found[name] = path
    return found


def ship_files(spark: SparkSession, *, with_ottla: bool) -> None:
    """Send the modules beside the application's, and Ottla itself where workers may not have it, to a session's workers."""
    files: dict[str, Path] = {}
    for name, path in _beside.items():
        parts = name.split(".")
        inside = "/".join([*parts, "__init__.py"]) if path.name == "__init__.py" else "/".join(parts) + ".py"
        files[inside] = path
    if with_ottla:
        files.update(_ottla_files())
    if not files:
        return
    spark.addArtifacts(str(packed("application", files)), pyfile=True)


def ottla_archive() -> Path:
    """Return a zip with Ottla itself, made anew, with what Python has compiled of it."""
    return packed("ottla", _ottla_files())


def _ottla_files() -> dict[str, Path]:
    root = Path(__file__).resolve().parent.parent.parent
    return {
        str(path.relative_to(root)): path
        for package in ("ottla", "pyspark_ottla")
        for path in (root / package).rglob("*")
        if _is_shipped(path)
    }


def packed(name: str, files: Mapping[str, Path]) -> Path:
    """Return a zip of modules, made anew, with what Python has compiled of them; `files` are by their names inside."""
    archive = Path(tempfile.mkdtemp(prefix="ottla-ship-")) / f"{name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        for inside, path in files.items():
            out.write(path, inside)
            compiled = _compiled(path) if path.suffix == ".py" else None
            if compiled is not None:
                out.writestr(f"{inside}c", compiled)
    return archive


def _compiled(path: Path) -> bytes | None:
    """Return a module's bytecode as Python takes it from a zip without a look at the source; None where there is none.

    Python compiles a module from a zip in each process anew, which for Ottla takes seconds.
    """
    try:
        code = Path(cache_from_source(str(path))).read_bytes()
    except OSError:
        return None
    stat = path.stat()
    of_source = struct.pack("<LL", int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF)
    if code[:4] != MAGIC_NUMBER or code[4:8] != bytes(4) or code[8:16] != of_source:
        return None
    return code[:4] + UNCHECKED + source_hash(path.read_bytes()) + code[16:]


def _is_shipped(path: Path) -> bool:
    return path.is_file() and path.suffix in (".py", ".json") and "__pycache__" not in path.parts
