"""A user's module goes to Spark's workers: by value where it is the application's file, as a zip where it is beside it."""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams import StreamsSettings

__all__ = ["modules_beside", "ship_files", "ship_module"]

_beside: dict[str, Path] = {}
"""Modules that are to be sent to the workers of sessions made later: name → file."""


def ship_module(module: ModuleType, settings: StreamsSettings) -> None:
    """Have a module's functions and classes pickled by value, so that workers need not import it.

    What it has imported from its own folder is sent as files when the session starts (`ship_files`), and found by local
    workers through PYTHONPATH at once.
    """
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    folder = str(Path(module.__file__ or ".").resolve().parent)
    if settings["spark.master"].startswith("local"):
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if folder not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, *paths]))
    _beside.update(modules_beside(module))


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
        root = Path(__file__).resolve().parent.parent.parent
        for package in ("ottla", "pyspark_ottla"):
            files.update(
                {str(path.relative_to(root)): path for path in (root / package).rglob("*") if _is_shipped(path)}
            )
    if not files:
        return
    archive = Path(tempfile.mkdtemp(prefix="ottla-ship-")) / "application.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for inside, path in files.items():
            out.write(path, inside)
    spark.addArtifacts(str(archive), pyfile=True)


def _is_shipped(path: Path) -> bool:
    return path.is_file() and path.suffix in (".py", ".json") and "__pycache__" not in path.parts
