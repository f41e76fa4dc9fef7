"""What Spark needs on this machine, asked before any work is done: Python packages and a Java."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from ottla.base import OttlaError, bring_extra
from ottla.spark.java import java_missing

__all__ = ["PACKAGES", "SparkMissingError", "check_spark", "spark_missing"]

PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "google.protobuf")
"""The packages of the extra `spark`, by the names that they are imported by."""


class SparkMissingError(OttlaError):
    """Spark cannot run here; the text is one line that says what to install."""


def spark_missing(environ: Mapping[str, str] | None = None) -> str | None:
    """Return one line that says what to install where Spark cannot run here, else None; `environ` is searched for a Java."""
    absent = [name for name in PACKAGES if not _is_installed(name)]
    if absent:
        return f"the pipeline runs on Spark, and {_listed(absent)} cannot be found here: {bring_extra('spark')}"
    return java_missing(environ)


def check_spark() -> None:
    """Raise SparkMissingError where Spark cannot run here."""
    if reason := spark_missing():
        raise SparkMissingError(reason)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a package that has it
        return False
