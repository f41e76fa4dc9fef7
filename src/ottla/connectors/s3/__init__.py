"""S3 and stores that speak its protocol: a sink of topics, and a source that reads objects back."""

from ottla.connectors.s3.sink import S3SinkConnector, S3SinkTask
from ottla.connectors.s3.source import S3SourceConnector, S3SourceTask

__all__ = ["S3SinkConnector", "S3SinkTask", "S3SourceConnector", "S3SourceTask"]
