"""`ConnectWorker`: joins the parts of a worker: cluster, plugins, herder, REST interface, and the runner of its tasks."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from ottla.base import ConfigError, KafkaError
from ottla.client import Client, client_network
from ottla.connect import (
    ClientSinkGroups,
    ConnectError,
    OffsetFile,
    Plugins,
    SinkGroups,
    StandaloneHerder,
    TaskOwner,
    TaskRunner,
    WorkerConfig,
    discover,
    distributed,
    rest,
)
from ottla.http import Reply, is_loopback, serving_context
from ottla.spark.connect.installed import INSTALLED
from ottla.spark.connect.jobs import Jobs
from ottla.spark.connect.runner import SparkTaskRunner
from ottla.spark.connect.worker_metrics import MeasuredHerder, MetricsService

__all__ = [
    "ConnectWorker",
    "Parts",
    "RestPlace",
    "RunningHerder",
    "distributed_herder",
    "explicit_levels",
    "standalone",
    "with_ports",
]

log = logging.getLogger(__name__)

CLUSTER_SECONDS_MAX = 60.0
"""How long the cluster may not answer while a worker starts, as `default.api.timeout.ms` of Kafka's admin client."""


@dataclass(frozen=True, slots=True)
class RestPlace:
    """Where a worker's REST interface is."""

    worker_id: str
    url: str
    """What it tells others."""
    prefix: str = ""
    """What the paths of every worker of its group begin with, such as `/east/west`."""


class RunningHerder(MeasuredHerder, Protocol):
    """A herder that is started and closed."""

    async def start(self) -> None:
        """Take requests from now on."""
        ...

    async def close(self) -> None:
        """Stop everything that runs here."""
        ...


@dataclass(frozen=True)
class Parts:
    """What a herder is made of."""

    config: WorkerConfig
    plugins: Plugins
    worker_id: str
    url: str
    """Where others reach this worker's REST interface."""

    cluster_id: str | None
    make_runner: Callable[[TaskOwner], TaskRunner]
    groups: SinkGroups
    client: Client
    """Of the worker itself, for as long as it runs."""
    asking: Callable[[], ssl.SSLContext] | None = None
    """With what workers are asked that are reached by HTTPS."""
    prefix: str = ""
    """What the paths of every worker of the group begin with (KIP-710)."""


def standalone(parts: Parts) -> StandaloneHerder:
    """Return the herder of a standalone worker."""
    path = Path(parts.config["offset.storage.file.filename"])
    return StandaloneHerder(
        parts.plugins,
        worker_id=parts.worker_id,
        cluster_id=parts.cluster_id,
        make_runner=parts.make_runner,
        offsets=OffsetFile(path),
        groups=parts.groups,
        providers=parts.config.providers,
        worker=parts.config.properties,
    )


def distributed_herder(parts: Parts) -> distributed.DistributedHerder:
    """Return the herder of a distributed worker; raises ConfigError."""
    config = parts.config
    bootstrap, name = config["bootstrap.servers"], config.values.get("client.id") or f"connect-{parts.worker_id}"
    network = client_network(config.properties)
    return distributed.DistributedHerder(
        parts.plugins,
        distributed.DistributedSettings.of(config.properties, config.values),
        url=parts.url,
        make_client=lambda part: Client(bootstrap, client_id=f"{name}-{part}", network=network),
        make_runner=parts.make_runner,
        groups=parts.groups,
        ask=_below(parts.prefix, rest.forwarding(parts.asking)),
        providers=config.providers,
        worker=config.properties,
    )


def _below(prefix: str, ask: rest.Forward) -> rest.Forward:
    """Return what asks other workers at paths that begin so; they tell each other where these begin, as in Kafka."""

    async def asked(method: str, address: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        place = urlsplit(address)
        return await ask(method, urlunsplit(place._replace(path=prefix + place.path)), body, headers)

    return asked


class ConnectWorker:
    """One worker on the running event loop. `jobs` are where tasks run: a Spark session of the worker's settings."""

    def __init__(
        self,
        config: WorkerConfig,
        make_herder: Callable[[Parts], RunningHerder] = standalone,
        *,
        jobs: Jobs | None = None,
        plugins: Plugins | None = None,
        place: RestPlace | None = None,
    ) -> None:
        """`place` is where it is reached, where somebody else serves its REST interface; None: it does."""
        self.config = config
        self._place, self._is_open = place, False
        self.urls: list[str] = []
        self._make_herder, self._jobs, self._plugins = make_herder, jobs, plugins
        self.metrics_urls: list[str] = []
        self._metrics: MetricsService | None = None
        self._client: Client | None = None
        self._runner: SparkTaskRunner | None = None
        self._rest: rest.RestService | None = None
        self._herder: RunningHerder | None = None

    @property
    def herder(self) -> RunningHerder:
        """The herder; there is one when `start` has returned."""
        assert self._herder is not None
        return self._herder

    @property
    def ended(self) -> asyncio.Future[None] | None:
        """Fails where a distributed worker cannot go on; None for one that is by itself."""
        return self._herder.ended if isinstance(self._herder, distributed.DistributedHerder) else None

    @property
    def runner(self) -> SparkTaskRunner:
        """The runner of its tasks."""
        assert self._runner is not None
        return self._runner

    async def start(self) -> None:
        """Find the cluster, load the plugins, serve REST and take requests; the Spark session starts meanwhile.

        Raises ConnectError where the cluster does not answer in time, or an address of the REST interface is taken.
        """
        config = self.config
        settings = rest.rest_settings(config.properties)
        client = self._client = Client(
            config["bootstrap.servers"],
            client_id=config.values.get("client.id") or "connect",
            network=client_network(config.properties),
        )
        cluster_id = await _cluster_id(client, config.properties["bootstrap.servers"])
        plugins = self._plugins
        if plugins is None:
            plugins = await asyncio.to_thread(_discovered, config.plugin_path)
        for found_at, reason in plugins.broken:
            log.warning("The plugin at %s cannot be loaded: %s", found_at, reason)
        place = self._place
        if place is None:
            settings, told = with_ports(settings, config.advertised_scheme)
            place = RestPlace(*config.advertised(told.host, told.port))
        worker_id = place.worker_id

        def make_runner(owner: TaskOwner, plugins: Plugins = plugins) -> TaskRunner:
            self._runner = SparkTaskRunner(
                owner,
                worker_id=worker_id,
                worker=config.properties,
                plugins=plugins,
                jobs=self._jobs,
                levels=explicit_levels,
            )
            return self._runner

        groups = ClientSinkGroups(client)
        facts = config, plugins, worker_id, place.url, cluster_id
        self._herder = self._make_herder(Parts(*facts, make_runner, groups, client, settings.asking, place.prefix))
        self._herder.loggers.on_change = self.runner.set_levels
        if self._place is None:
            service = rest.RestService(self._herder, settings)
            try:
                await service.listen()
            except OSError as error:
                raise ConnectError(why_not(error, settings, config.properties)) from error
            self._rest = service
            _tell_loopback(self._herder, place)
            self.urls = [f"{each.scheme}://{shown(each.host)}:{each.port}" for each in settings.listeners]
        self._is_open = True
        await self._serve_metrics(self._herder, settings)
        if isinstance(self._herder, distributed.DistributedHerder):
            await self._herder.prepare()  # what is refused is refused before a session starts
        await self.runner.open()
        await self._herder.start()

    async def _serve_metrics(self, herder: RunningHerder, settings: rest.RestSettings) -> None:
        name = "ottla.http.listeners"
        addresses = rest.parse_addresses(name, self.config.properties.get(name, ""))
        if not addresses:
            return
        secure = any(each.is_secure for each in addresses)
        self._metrics = MetricsService(herder, lambda: self.runner, addresses, settings)
        try:
            tls = serving_context(rest.https_properties(self.config.properties)) if secure else None
            ports = await self._metrics.listen(tls)
        except OSError as error:
            raise ConnectError(f"{name}: cannot listen on {', '.join(self.config[name])}: {error.strerror}") from error
        self.metrics_urls = [
            f"{each.scheme}://{shown(each.host)}:{port}" for each, port in zip(addresses, ports, strict=True)
        ]

    async def close(self) -> None:
        """Stop connectors and tasks, then everything else; offsets are stored when this returns."""
        for service in (self._metrics, self._rest):
            if service is not None:
                await service.close()
        if self._herder is not None and self._is_open:
            await self._herder.close()
            await self.runner.close()
        if self._client is not None:
            await self._client.close()


def _tell_loopback(herder: RunningHerder, place: RestPlace) -> None:
    if isinstance(herder, distributed.DistributedHerder) and is_loopback(urlsplit(place.url).hostname or ""):
        log.info("Others are told %s: workers on other machines need listeners in every worker's file", place.url)


def _discovered(plugin_path: Sequence[Path]) -> Plugins:
    return discover(plugin_path, more=INSTALLED)


async def _cluster_id(client: Client, bootstrap: str) -> str | None:
    """Return the cluster's id; raises ConnectError, in Kafka's words, where no broker answers for long."""
    deadline = time.monotonic() + CLUSTER_SECONDS_MAX
    told = False
    while True:
        try:
            return (await client.metadata(())).cluster_id
        except (KafkaError, OSError) as error:
            if time.monotonic() > deadline:
                raise ConnectError(
                    "Failed to connect to and describe Kafka cluster. Check worker's broker connection and security "
                    f"properties. (bootstrap.servers={bootstrap}: {error})"
                ) from error
            if not told:
                log.warning("No broker at %s answers yet: %s; trying for %.0f s", bootstrap, error, CLUSTER_SECONDS_MAX)
            told = True
            await asyncio.sleep(0.5)


def with_ports(settings: rest.RestSettings, scheme: str) -> tuple[rest.RestSettings, rest.Address]:
    """Return settings in which listeners have ports, chosen by the system where they had none, and the one to tell."""
    listeners = []
    for each in settings.listeners:
        if not each.port:
            with socket.create_server((each.host, 0)) as probe:
                each = replace(each, port=probe.getsockname()[1])
        listeners.append(each)
    if not listeners:
        raise ConfigError("listeners", "", "one address at least, such as http://localhost:8083")
    told = next((each for each in listeners if each.scheme == scheme), None)
    if told is None:
        raise ConfigError("rest.advertised.listener", scheme, "the scheme of one of the listeners")
    return replace(settings, listeners=tuple(listeners)), told


def why_not(error: OSError, settings: rest.RestSettings, properties: Mapping[str, str]) -> str:
    """Return what keeps the REST interface from listening, and what to do about it."""
    addresses = ", ".join(f"{each.scheme}://{each.host}:{each.port}" for each in settings.listeners)
    reason = os.strerror(error.errno) if error.errno else str(error)
    text = f"Unable to initialize REST server: cannot listen on {addresses}: {reason}."
    if error.errno != errno.EADDRINUSE:
        return f"{text} Set listeners in the worker's properties, for example listeners=http://localhost:8084"
    set_now = next((name for name in ("listeners", "rest.port") if properties.get(name)), None)
    where = f"change {set_now}" if set_now else "set listeners or rest.port"
    port = settings.listeners[0].port + 1
    return (
        f"{text} Another worker may run there: stop it, or give its connectors to one worker. To run both, {where} in the "
        f"worker's properties, for example listeners=http://localhost:{port} or rest.port={port}"
    )


def shown(host: str) -> str:
    """Return a listener's host as an address has it that is opened on this machine."""
    if host in ("", "0.0.0.0", "::"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


def explicit_levels() -> dict[str, int]:
    """Return the levels that loggers of this process were given, by name; the root's is empty."""
    known = {name: each for name, each in logging.Logger.manager.loggerDict.items() if isinstance(each, logging.Logger)}
    set_ones = {name: each.level for name, each in known.items() if each.level != logging.NOTSET}
    return {**set_ones, "": logging.getLogger().level}
