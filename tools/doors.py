"""Every door of every service: its declarations, as the services make their routes of them. Nothing is started."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ottla.broker.monitoring.http_service import HttpService
from ottla.config import BrokerConfig
from ottla.connect.rest.service import rest_dialect, rest_endpoints
from ottla.connect.rest.settings import RestSettings
from ottla.console import ClusterSettings, Console, console_settings
from ottla.registry.rest.instance import REQUEST_SECONDS_MAX as REGISTRY_SECONDS_MAX
from ottla.registry.rest.serving import registry_dialect, registry_endpoints
from ottla.registry.rest.watching import Watching
from ottla.registry.service import Registry
from ottla.registry.settings import registry_settings
from ottla.service import Dialect, Endpoint, Limits
from ottla.spark.connect.worker_metrics import MetricsService
from ottla.spark.continuous.web import ServiceServer
from ottla.spark.streams.web import ApplicationServer
from ottla.spark.streams.web_server import DIALECT
from ottla.sql_server.rest.instance import REQUEST_SECONDS_MAX, Instance
from ottla.sql_server.rest.serving import sql_dialect
from ottla.sql_server.settings import server_settings

__all__ = ["Doors", "services"]

NOBODY: Any = None
BOOTSTRAP = "127.0.0.1:1"


@dataclass(frozen=True)
class Doors:
    """The doors of one service."""

    name: str
    default: str
    """Where it listens unless a setting says otherwise; empty where it does not."""
    endpoints: tuple[Endpoint[Any], ...]
    dialect: Dialect
    sockets: tuple[Endpoint[Any], ...] = ()


def _doors(
    name: str, default: str, endpoints: Iterable[Endpoint[Any]], dialect: Dialect, *sockets: Endpoint[Any]
) -> Doors:
    return Doors(name, default, tuple(endpoints), dialect, sockets)


def services() -> list[Doors]:
    """Return every service of Ottla that is asked over HTTP. A new one has its line here: a test counts them."""
    registry = Registry(registry_settings({"kafkastore.bootstrap.servers": BOOTSTRAP}, {}))
    of_registry, beside = registry_endpoints(registry, Watching(registry))
    sql = Instance(server_settings({"bootstrap.servers": BOOTSTRAP}, {}))
    of_sql, sql_sockets = sql.endpoints()
    rest = RestSettings()
    console = Console(console_settings({}, (ClusterSettings("c", BOOTSTRAP, {}),)))
    of_clusters, of_console = console.endpoints()
    broker = HttpService(NOBODY, lambda: None, BrokerConfig.load())
    plain = Dialect()
    registry_limits = Limits(registry.settings.body_bytes_max, REGISTRY_SECONDS_MAX)
    sql_limits = Limits(sql.settings.limits.request_bytes, REQUEST_SECONDS_MAX)
    return [
        _doors("Broker: metrics and health", "", broker.endpoints(), plain),
        _doors("Schema registry", "localhost:8081", chain(of_registry, beside), registry_dialect(registry_limits)),
        _doors("SQL server", "localhost:8088", of_sql, sql_dialect(sql_limits), *sql_sockets),
        _doors("Connect", "localhost:8083", rest_endpoints(NOBODY, rest, ("main", "admin")), rest_dialect(rest)),
        _doors("Connect: metrics and health", "", MetricsService(NOBODY, NOBODY).endpoints(), plain),
        _doors(
            *("Streams application", ""),
            ApplicationServer.endpoints(object.__new__(ApplicationServer)),
            DIALECT,
        ),
        _doors("Streams service", "127.0.0.1", ServiceServer.endpoints(object.__new__(ServiceServer)), DIALECT),
        _doors("Console", "127.0.0.1:9180", chain(of_console, of_clusters), plain, console.socket()),
    ]
