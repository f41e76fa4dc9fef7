"""Connectors for files: Kafka's FileStreamSource and FileStreamSink, and FolderSource, which follows folders of logs."""

from ottla.connectors.files.folder_source import FolderSourceConnector, FolderSourceTask
from ottla.connectors.files.stream_sink import FileStreamSinkConnector, FileStreamSinkTask
from ottla.connectors.files.stream_source import FileStreamSourceConnector, FileStreamSourceTask

__all__ = [
    "FileStreamSinkConnector",
    "FileStreamSinkTask",
    "FileStreamSourceConnector",
    "FileStreamSourceTask",
    "FolderSourceConnector",
    "FolderSourceTask",
]
