"""The Spark session of the examples is that of the tests of Streams."""

from tests.streams.spark.conftest import spark

__all__ = ["spark"]
