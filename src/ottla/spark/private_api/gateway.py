"""PySpark's gateway to its JVM, by Py4J: who launches it, how loud it is, what is left of one that has ended."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["ask_numpy_alone", "forget_gateway", "java_reason", "launched_by", "silence_py4j"]


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


class _OfNumpy:
    """One of PySpark's converters of NumPy's values, which is asked of those alone."""

    def __init__(self, converter: Any) -> None:
        self._converter = converter

    def can_convert(self, value: Any) -> bool:
        """Return whether this is for the converter; what is no value of NumPy's is not."""
        numpy = sys.modules.get("numpy")
        types = tuple(filter(None, (getattr(numpy, name, None) for name in ("generic", "ndarray"))))
        # while another thread imports NumPy it is there without its types, and there is no value of them
        return isinstance(value, types) and bool(self._converter.can_convert(value))

    def convert(self, value: Any, gateway_client: Any) -> Any:
        """See Py4J."""
        return self._converter.convert(value, gateway_client)


def ask_numpy_alone() -> None:
    """Have values go to the JVM without a look at PySpark's test tools; before the gateway is made, or behind it.

    By Py4J's `INPUT_CONVERTER`: PySpark's two converters for NumPy learn from `pyspark.testing` whether NumPy is there, and
    that brings in Pandas and unittest, with the first list or class that is handed to the JVM (measured: 28 MiB and a third
    of a second of each process that has a session).
    """
    from py4j.protocol import INPUT_CONVERTER  # type: ignore[import-untyped]
    from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

    for place, each in enumerate(INPUT_CONVERTER):
        if type(each) in (NumpyArrayConverter, NumpyScalarConverter):
            INPUT_CONVERTER[place] = _OfNumpy(each)
