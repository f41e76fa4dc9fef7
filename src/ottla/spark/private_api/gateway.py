"""PySpark's gateway to its JVM, by Py4J: who launches it, how loud it is, what is left of one that has ended."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["forget_gateway", "java_reason", "launched_by", "silence_py4j"]


@contextmanager
def launched_by(popen: Any) -> Iterator[None]:
    """Have a JVM that PySpark launches in the block launched by `popen`, in the place of `subprocess.Popen`.

    By the name that `pyspark.java_gateway` has imported: PySpark keeps the process to itself until it answers, and has no
    other way to see one that never does.
    """
    from pyspark import java_gateway

    before = java_gateway.Popen  # type: ignore[attr-defined]
    java_gateway.Popen = popen  # type: ignore[attr-defined]
    try:
        yield
    finally:
        java_gateway.Popen = before  # type: ignore[attr-defined]


def silence_py4j() -> None:
    """Let Py4J not tell of every connection that ends.

    By the places that it logs from, since a part of it logs as the root logger.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)


def forget_gateway() -> None:
    """Let this process start another JVM, and forget the session and the context of one that is gone.

    By `_gateway`, `_jvm`, `_active_spark_context` and `_instantiatedSession`: `stop` asks the JVM, and PySpark takes the one
    that it has launched to be there for ever.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def java_reason(error: Exception) -> str:
    """Return the first line of what Java threw, or of an error of Python.

    By Py4J's `java_exception`: the text of its own error begins with words about the call.
    """
    thrown = getattr(error, "java_exception", None)
    text = str(error) if thrown is None else str(thrown.toString())
    return text.partition("\n")[0]
