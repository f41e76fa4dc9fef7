"""What Spark looks for by name: packages called `pyspark_*` may bring a data source, here `format("ottla")`."""

from ottla.spark.source.datasource import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
