"""The file-system and HDFS sink: topics as Parquet, ORC, JSON, CSV, Avro or text on any path that Spark writes."""

from ottla.connectors.filesystem.connector import FilesystemSink, FilesystemSinkConnector

__all__ = ["FilesystemSink", "FilesystemSinkConnector"]
