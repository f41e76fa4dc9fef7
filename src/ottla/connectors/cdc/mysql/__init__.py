"""Change data capture of MySQL and MariaDB: snapshots, and the binlog's rows, read by the tables as they were."""

from ottla.connectors.cdc.mysql.connector import MariaDbConnector, MySqlConnector

__all__ = ["MariaDbConnector", "MySqlConnector"]
