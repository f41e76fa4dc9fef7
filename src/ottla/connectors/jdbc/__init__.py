"""JDBC source and sink: tables and queries of databases into topics, and topics into tables, over SQLAlchemy.

SQLAlchemy and drivers are imported when a connector is configured; `pip install '.[connect]'` brings them.
"""

from ottla.connectors.jdbc.sink import JdbcSinkConnector
from ottla.connectors.jdbc.source import JdbcSourceConnector

__all__ = ["JdbcSinkConnector", "JdbcSourceConnector"]
