"""Change data capture: what is committed in a database becomes records, under Debezium's names and in its form.

psycopg, or mysql-replication, is imported when a connector is configured; `pip install '.[connect]'` brings it.
"""

from ottla.connectors.cdc.mysql import MariaDbConnector, MySqlConnector
from ottla.connectors.cdc.source import PostgresConnector
from ottla.connectors.cdc.transforms import EventRouter, ExtractNewRecordState

__all__ = ["EventRouter", "ExtractNewRecordState", "MariaDbConnector", "MySqlConnector", "PostgresConnector"]
