"""How an application's clients are protected: the driver's own, and what Spark is told for those of its tasks."""

from __future__ import annotations

from functools import cache

from ottla.client import SecuredNetwork
from ottla.spark.source.secured import KeptAside, network_of
from ottla.streams import StreamsSettings

__all__ = ["driver_network", "told_to_spark"]

LOCAL = "local"


def driver_network(settings: StreamsSettings) -> SecuredNetwork | None:
    """Return the network of one of the driver's clients, None for connections in clear.

    Raises ConfigError for what cannot be honoured.
    """
    return network_of(tuple(sorted(settings.security.items())))


def told_to_spark(settings: StreamsSettings) -> dict[str, str]:
    """Return options of `format("ottla")`, without a secret: those lie in a folder until this process ends.

    Raises ConfigError where executors are on other machines and a secret is no placeholder.
    """
    if settings.security["security.protocol"] == "PLAINTEXT":
        return {}
    local = str(settings["spark.master"]).startswith(LOCAL)
    aside = _kept_aside(tuple(sorted(settings.security.items())), local)
    return {f"kafka.{key}": value for key, value in aside.properties.items()}


@cache
def _kept_aside(properties: tuple[tuple[str, str], ...], local: bool) -> KeptAside:
    return KeptAside(dict(properties), local=local)
