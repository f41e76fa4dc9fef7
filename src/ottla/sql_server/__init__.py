"""The SQL server: ksqlDB's interface over `sql`'s command log, with persistent queries in continuous mode's hosts.

`SqlServer` is all of it: it follows the command topic and keeps its queries running; pull queries look into tables that
are followed, push queries run in the server until their client goes. `Instance` serves it by HTTP. `spark_engine` runs
cases' queries in Spark's tasks. Importing this package
imports neither aiohttp nor Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base import late_imports
from ottla.sql_server.settings import ServerSettings, server_settings

if TYPE_CHECKING:
    from ottla.sql_server.rest.instance import Instance
    from ottla.sql_server.server import SqlServer
    from ottla.sql_server.spark_cases import spark_engine

__all__ = ["Instance", "ServerSettings", "SqlServer", "server_settings", "spark_engine"]

_LATE = {
    "Instance": "ottla.sql_server.rest.instance",
    "SqlServer": "ottla.sql_server.server",
    "spark_engine": "ottla.sql_server.spark_cases",
}

__getattr__ = late_imports(__name__, _LATE)
"""Imports aiohttp and what runs queries where a server is made."""
