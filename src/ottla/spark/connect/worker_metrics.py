"""A worker's metrics as Prometheus reads them: Kafka's, under the names that its usual JMX rules give them."""

from __future__ import annotations

import json
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from ottla.connect import Herder, Plugins, decisions, rest, storage
from ottla.connect.tasks.metrics import PLUGIN
from ottla.http import Reply, Request, Who, everybody, json_reply, text_reply
from ottla.service import Dialect, Endpoint, guard_of, routes_of, server_of
from ottla.spark.connect.runner import SparkTaskRunner

__all__ = ["MeasuredHerder", "MetricsService", "group_of", "metrics_text"]

ADMITS = "everybody who reaches it reads metrics, which name connectors and topics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ERRORS = {
    *("total-record-failures", "total-record-errors", "total-records-skipped", "total-retries", "total-errors-logged"),
    *("deadletterqueue-produce-requests", "deadletterqueue-produce-failures", "last-error-timestamp"),
}
_SINK_COMMITS = ("offset-commit-seq-no", "offset-commit-completion", "offset-commit-skip")
_FETCHES = ("records-", "bytes-consumed-", "fetch-")
_FETCH_GROUP = "consumer-fetch-manager"
"""Kafka's consumer-fetch-manager-metrics are its consumer's, under `client-id`, `topic` and `partition`."""
_STATES = ("running", "paused", "failed", "unassigned", "restarting", "destroyed")

Labels = Mapping[str, object]
Family = dict[str, list[str]]


def group_of(metric: str) -> str:
    """Return the group of a task's metric: `source-record-poll-total` is of `source-task`."""
    if metric.startswith(_FETCHES):
        return _FETCH_GROUP
    if metric in _ERRORS:
        return "task-error"
    if metric.startswith(("source-", "poll-", "transaction-")):
        return "source-task"
    if metric.startswith(("sink-", "put-", "partition-count", *_SINK_COMMITS)):
        return "sink-task"
    return "connector-task"


def metrics_text(
    view: decisions.View,
    tasks: Mapping[storage.TaskId, Mapping[str, float]],
    totals: Mapping[str, float],
    plugins: Plugins,
    is_here: Callable[[str], bool] = lambda connector: True,
) -> str:
    """Return the page; `tasks` is what each task has reported last, `totals` what the worker has counted, by group and name.

    Of connectors, those that are here are shown, so that a cluster's workers can be added up.
    """
    page: Family = {}
    for name, value in totals.items():
        _add(page, name, value, {})
    for connector in filter(is_here, view.config.connectors()):
        _of_connector(page, view, connector, plugins)
    for task, metrics in sorted(tasks.items()):
        labels: Labels = {"connector": task.connector, "task": task.task}
        status = view.statuses.statuses.get(task)
        if status is not None:
            _add(page, "connector_task_status", 1, {**labels, "status": status.state.value.lower()})
        config = view.config.configs.get(task.connector, {})
        client = config.get("consumer.override.client.id") or f"connector-consumer-{task}"
        for name, value in sorted(metrics.items()):
            if name.startswith(PLUGIN):
                _of_plugin(page, name.removeprefix(PLUGIN), value, labels)
                continue
            place, _, metric = name.rpartition(".")
            group = group_of(metric)
            if group != _FETCH_GROUP:
                _add(page, f"{group}_{metric}", value, labels)
                continue
            topic, _, partition = place.rpartition("-")
            of_one = {"topic": topic, "partition": partition} if place else {}
            _add(page, f"{group}_{metric}", value, {"clientId": client, **labels, **of_one}, room="kafka_")
    lines = []
    for name in sorted(page):
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE {name} {kind}", *page[name]]
    return "\n".join(lines) + "\n"


def _of_plugin(page: Family, name: str, value: float, labels: Labels) -> None:
    """Add what a task measures itself, as the JMX exporter writes an MBean of that domain, type and attribute."""
    mbean, _, attribute = name.rpartition(" ")
    domain, kind, own, prefix = json.loads(mbean)
    room = prefix or f"{domain.replace('.', '_')}_{kind.lower()}_"
    _add(page, attribute, value, {**own, **labels}, room=room)


def _of_connector(page: Family, view: decisions.View, connector: str, plugins: Plugins) -> None:
    shown = decisions.connector_info(view, connector, plugins)
    status = view.statuses.statuses.get(connector)
    tasks = view.statuses.tasks(connector)
    labels: Labels = {"connector": connector}
    words = {
        "class": view.config.configs[connector].get("connector.class"),
        "type": shown["type"],
        "version": None if status is None else status.version,
        "status": None if status is None else status.state.value.lower(),
    }
    for name, word in words.items():
        if word:
            _add(page, f"connector_{name}", 1, {**labels, f"connector_{name}": word})
    _add(page, "worker_connector_total_task_count", len(tasks), labels)
    for state in _STATES:
        count = sum(each.state.value.lower() == state for each in tasks)
        _add(page, f"worker_connector_{state}_task_count", count, labels)


def _add(page: Family, name: str, value: float, labels: Labels, room: str = "kafka_connect_") -> None:
    full = room + name.replace("-", "_").replace(".", "_")
    inside = ",".join(f'{label}="{_escaped(str(each))}"' for label, each in labels.items())
    page.setdefault(full, []).append(f"{full}{{{inside}}} {value}" if inside else f"{full} {value}")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MeasuredHerder(Herder, Protocol):
    """A herder that counts, too."""

    def metrics(self) -> dict[str, float]:
        """Return what it counts, by Kafka's group and name."""
        ...

    def has_connector(self, name: str) -> bool:
        """Return whether a connector is this worker's."""
        ...


class MetricsService:
    """`/metrics`, `/livez`, `/readyz` and `/healthz` of a worker, on the addresses of `ottla.http.listeners`."""

    def __init__(
        self,
        herder: MeasuredHerder,
        runner: Callable[[], SparkTaskRunner],
        addresses: Sequence[rest.Address] = (),
        settings: rest.RestSettings | None = None,
    ) -> None:
        """`settings` are those of the worker's interface, whose names it is asked under, too."""
        self._herder, self._runner, self._addresses = herder, runner, tuple(addresses)
        guard = guard_of(
            everybody,
            listeners=[each.host for each in self._addresses],
            advertised=settings.advertised if settings is not None else (),
            hosts=settings.hosts if settings is not None else (),
            is_protected=bool(addresses) and all(each.is_secure for each in addresses),
        )
        routes = routes_of(self.endpoints(), Dialect(), lambda each: each.handle)
        self._server = server_of(routes, guard, Dialect(), admits=ADMITS)

    def endpoints(self) -> list[Endpoint[Callable[[Request], Awaitable[Reply]]]]:
        """Return every address."""
        return [
            Endpoint("GET", "/metrics", "Metrics for Prometheus", self._metrics, Who.LOGGED_IN),
            Endpoint("GET", "/livez", "Whether the worker runs", _alive, Who.ANYONE),
            Endpoint("GET", "/readyz", "Whether the worker runs tasks", self._ready, Who.ANYONE, statuses=(200, 503)),
            Endpoint("GET", "/healthz", "Whether the worker runs tasks", self._ready, Who.ANYONE, statuses=(200, 503)),
        ]

    async def listen(self, tls: Callable[[], ssl.SSLContext] | None = None) -> list[int]:
        """Serve the addresses and return their ports, HTTPS with `tls`; raises OSError where one is taken."""
        return [
            await self._server.listen(each.host, each.port, tls if each.is_secure else None) for each in self._addresses
        ]

    async def close(self) -> None:
        """Stop serving."""
        await self._server.close()

    async def _metrics(self, request: Request) -> Reply:
        runner = self._runner()
        view = await self._herder.view()
        totals = {f"worker-{name}": value for name, value in runner.totals().items()} | self._herder.metrics()
        page = metrics_text(view, runner.metrics(), totals, self._herder.plugins, self._herder.has_connector)
        return text_reply(page, content_type=CONTENT_TYPE)

    async def _ready(self, request: Request) -> Reply:
        checks = {"worker": self._herder.ready, "spark": self._runner().is_ready}
        return json_reply(
            {"status": "ok" if all(checks.values()) else "starting", **checks},
            status=200 if all(checks.values()) else 503,
        )


async def _alive(request: Request) -> Reply:
    return json_reply({"status": "ok"})
