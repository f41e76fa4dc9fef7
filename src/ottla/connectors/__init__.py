"""The connectors that are installed with Ottla, written against the public API of `ottla.connect` as anybody's would be.

`CONNECTORS` names their classes. What only one of them needs (SQLAlchemy, psycopg, boto3) is imported when it is configured.
"""

from __future__ import annotations

from typing import Any

from ottla.connectors.cdc import (
    EventRouter,
    ExtractNewRecordState,
    MariaDbConnector,
    MySqlConnector,
    PostgresConnector,
)
from ottla.connectors.datagen import GeneratorSourceConnector
from ottla.connectors.files import FileStreamSinkConnector, FileStreamSourceConnector, FolderSourceConnector
from ottla.connectors.filesystem import FilesystemSinkConnector
from ottla.connectors.jdbc import JdbcSinkConnector, JdbcSourceConnector
from ottla.connectors.s3 import S3SinkConnector, S3SourceConnector

__all__ = ["CONNECTORS"]

CONNECTORS: tuple[type[Any], ...] = (
    EventRouter,
    ExtractNewRecordState,
    FileStreamSinkConnector,
    FileStreamSourceConnector,
    FilesystemSinkConnector,
    FolderSourceConnector,
    GeneratorSourceConnector,
    JdbcSinkConnector,
    JdbcSourceConnector,
    MariaDbConnector,
    MySqlConnector,
    PostgresConnector,
    S3SinkConnector,
    S3SourceConnector,
)
"""Every connector's class, and those of the transformations that come with one."""
