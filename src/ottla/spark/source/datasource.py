"""`format("ottla")`: what Spark instantiates, by name, for every read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla.spark.cluster_protection import check_source
from ottla.spark.source.options import read_options, write_options

if TYPE_CHECKING:
    from ottla.spark.source.reader import OttlaReader, OttlaStreamReader
    from ottla.spark.source.writer import OttlaStreamWriter, OttlaWriter

__all__ = ["OttlaDataSource", "source_for"]


class OttlaDataSource(DataSource):
    """Topics of Ottla, or of any Kafka cluster, with the columns and options of Spark's Kafka connector."""

    cluster: ClassVar[str | None] = None
    """What the session's cluster lacks before connections to brokers may be secured (`cluster_protection.lacking`); None
    where Spark has found the class by its name, and nobody has looked."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "ottla"

    def schema(self) -> StructType:
        """Return Kafka's columns; with `headers` where `includeHeaders` is true."""
        from ottla.spark.source.columns import SCHEMA

        include = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return SCHEMA if include else StructType([field for field in SCHEMA.fields if field.name != "headers"])

    def reader(self, schema: StructType) -> OttlaReader:
        """Return a reader for one batch; wrong options end here."""
        from ottla.spark.source.columns import chosen_schema
        from ottla.spark.source.reader import OttlaReader

        check_source(self.options, self.cluster)
        options = read_options(self.options, streaming=False)
        return OttlaReader(chosen_schema(schema, include_headers=options.include_headers), options)

    def streamReader(self, schema: StructType) -> OttlaStreamReader:
        """Return a reader for micro-batches; wrong options end here."""
        from ottla.spark.source.columns import chosen_schema
        from ottla.spark.source.reader import OttlaStreamReader

        check_source(self.options, self.cluster)
        options = read_options(self.options, streaming=True)
        if options.steps:
            return OttlaStreamReader(schema, options)
        return OttlaStreamReader(chosen_schema(schema, include_headers=options.include_headers), options)

    def writer(self, schema: StructType, overwrite: bool) -> OttlaWriter:
        """Return a writer for one batch; a topic cannot be overwritten."""
        from ottla.spark.source.writer import OttlaWriter, check_overwrite

        check_overwrite(overwrite)
        check_source(self.options, self.cluster)
        return OttlaWriter(schema, write_options(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> OttlaStreamWriter:
        """Return a writer for micro-batches; `overwrite` is how Spark says complete mode, which a topic takes as rows."""
        from ottla.spark.source.writer import OttlaStreamWriter

        check_source(self.options, self.cluster)
        return OttlaStreamWriter(schema, write_options(self.options))


def source_for(cluster: str) -> type[OttlaDataSource]:
    """Return the source for a session, which knows what its cluster lacks.

    A class of its own, which travels by value: Spark makes sources in processes that know nothing of the session.
    """
    return type("OttlaDataSource", (OttlaDataSource,), {"cluster": cluster, "__doc__": OttlaDataSource.__doc__})
