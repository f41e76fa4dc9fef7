"""An application over HTTP: its status, metrics for Prometheus, and lookups in its stores."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ottla.base import ErrorCode, KafkaError
from ottla.http import (
    BasicLogins,
    HttpError,
    Reply,
    Request,
    Who,
    is_loopback,
    json_reply,
    text_reply,
)
from ottla.service import Endpoint, Limits
from ottla.spark.continuous.metrics import prometheus_lines
from ottla.spark.streams.plain_values import key_of_text, plain
from ottla.spark.streams.state.store_tables import LAST
from ottla.spark.streams.web_door import Door, door_of
from ottla.spark.streams.web_server import Handle, ThreadedServer

if TYPE_CHECKING:
    from ottla.spark.continuous.metrics import Metric
    from ottla.spark.continuous.promotion import Promotion
    from ottla.spark.streams.state.stores import StoreView
    from ottla.spark.streams.states import State
    from ottla.streams import Topology

__all__ = [
    "PROMETHEUS",
    "ApplicationServer",
    "Door",
    "ShownApplication",
    "application_endpoints",
    "door_of",
    "lookup",
    "metrics_text",
]

LIMIT_DEFAULT = 1000
BODY_LETTERS_MAX = 10_000
SMALL = Limits(body_bytes=4 * BODY_LETTERS_MAX, seconds=120.0)
"""Of requests that change anything."""
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_METRICS = (
    ("rows", "counter", "ottla_streams_rows_total", "Records read."),
    ("rows_per_second", "gauge", "ottla_streams_rows_per_second", "Records read per second, over ten seconds."),
    ("lag", "gauge", "ottla_streams_lag", "Records in the topics that are not processed yet."),
    ("batches", "counter", "ottla_streams_batches_total", "Micro-batches done."),
    ("batch_seconds", "gauge", "ottla_streams_batch_seconds", "Seconds that the last micro-batch took."),
    ("late", "counter", "ottla_streams_late_total", "Records dropped because their window had closed."),
    ("dropped", "counter", "ottla_streams_dropped_total", "Records dropped because of a null key or value."),
    (
        "skipped",
        "counter",
        "ottla_streams_skipped_total",
        "Records that could not be read or processed, and were skipped.",
    ),
    ("restarts", "counter", "ottla_streams_restarts_total", "Restarts of the query."),
)


class ShownApplication(Protocol):
    """What is shown of an application."""

    @property
    def topology(self) -> Topology:
        """The plan."""
        ...

    @property
    def state(self) -> State:
        """The state now."""
        ...

    def status(self) -> dict[str, Any]:
        """Return how its queries stand."""
        ...

    def promote(self, to: str, *, dry_run: bool = False) -> Promotion:
        """Have it go on in the other mode of execution; raises KafkaError."""
        ...

    def metrics(self) -> Iterable[Metric]:
        """Return Kafka Streams' metrics, where it has them."""
        ...

    def store(self, name: str) -> StoreView:
        """Return a store to look into."""
        ...


def metrics_text(statuses: Sequence[dict[str, Any]], metrics: Iterable[Metric] = ()) -> str:
    """Return applications' statuses, and Kafka Streams' metrics of them, as Prometheus reads them."""
    lines = [
        "# HELP ottla_streams_state 1 for the application's state, 0 for the others.",
        "# TYPE ottla_streams_state gauge",
    ]
    states = ("CREATED", "REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING", "PENDING_ERROR", "ERROR")
    for status in statuses:
        application = _label(status["application_id"])
        for state in states:
            is_now = int(state == status["state"])
            lines.append(f'ottla_streams_state{{application_id="{application}",state="{state}"}} {is_now}')
    for field, kind, name, words in _METRICS:
        lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
        for status in statuses:
            application = _label(status["application_id"])
            for query in status["queries"]:
                labels = f'application_id="{application}",query="{_label(query["name"])}"'
                lines.append(f"{name}{{{labels}}} {query[field]}")
    lines += prometheus_lines(metrics)
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def lookup(view: StoreView, asked: dict[str, str]) -> dict[str, Any]:
    """Answer a lookup given as text: `key`, `prefix`, `low` and `high`, `from` and `to` (milliseconds), or nothing for all.

    `reverse` and `limit` go with all but a single key. Raises KafkaError for what does not go together.
    """
    unknown = set(asked) - {"key", "prefix", "low", "high", "from", "to", "as_of", "reverse", "limit"}
    if unknown:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{', '.join(sorted(unknown))}: no such parameter")
    kind = view.spec.kind
    more: dict[str, Any] = {"reverse": asked.get("reverse") == "true", "limit": _number(asked, "limit", LIMIT_DEFAULT)}
    key = key_of_text(view.spec.key, asked["key"]) if "key" in asked else None
    answer: dict[str, Any] = {"store": view.name}
    if "session" in kind:
        found = view.sessions(key, _number(asked, "from", 0), _number(asked, "to", LAST), **more)
        answer["entries"] = _entries(found)
    elif "window" in kind:
        found = view.fetch(key, _number(asked, "from", 0), _number(asked, "to", LAST), **more)
        answer["entries"] = _entries(found)
    elif key is not None:
        as_of = _number(asked, "as_of", LAST)
        entry = view.entry(key, as_of_ms=as_of)
        answer["key"] = plain(key)
        answer["value"] = None if entry is None else plain(entry[1])
        answer["timestamp"] = None if entry is None else entry[2]
    elif "prefix" in asked:
        prefix = key_of_text(view.spec.key, asked["prefix"])
        answer["entries"] = _entries(view.prefix(prefix, **more))
    else:
        low, high = (key_of_text(view.spec.key, asked[name]) if name in asked else None for name in ("low", "high"))
        answer["entries"] = _entries(view.range(low, high, **more))
    return {**answer, "position": view.position.facts()}


def _entries(pairs: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"key": plain(key), "value": plain(value)} for key, value in pairs]


def _number(asked: dict[str, str], name: str, default: int) -> int:
    text = asked.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is to be a whole number, not {text!r}") from None


class ApplicationServer:
    """Serves an application on an event loop of its own, in a thread; `close` ends it."""

    def __init__(
        self,
        application: ShownApplication,
        host: str,
        port: int,
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        logins: BasicLogins | None = None,
        hosts: Iterable[str] = (),
    ) -> None:
        """Listen; raises OSError where the address is taken.

        With `tls`, which gives the context of the next connection, by HTTPS; with `logins` to these alone, but for health.
        """
        self._application = application
        self._may_change = is_loopback(host) or (tls is not None and logins is not None)
        self._server = ThreadedServer(self.endpoints(), Door(host, port, tls, logins, tuple(hosts)))
        self.port, self.url = self._server.port, self._server.url

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def endpoints(self) -> list[Endpoint[Handle]]:
        """Return every address."""
        promote = "Change the mode of execution"
        return [
            Endpoint("GET", "/health", "Whether it runs", self._health, Who.ANYONE, statuses=(200, 503)),
            Endpoint("GET", "/status", "State, queries and lag", self._status, Who.LOGGED_IN),
            Endpoint("GET", "/metrics", "Metrics for Prometheus", self._metrics, Who.LOGGED_IN),
            Endpoint(
                *("POST", "/promote", promote, self._promote, Who.LOGGED_IN),
                right="from other machines: HTTPS and a login",
                body="Promotion",
                statuses=(200, 400, 403, 409, 504),
                changes=True,
                limits=SMALL,
            ),
            *application_endpoints("", lambda _request: self._application),
        ]

    async def _status(self, _request: Request) -> Reply:
        return json_reply(self._application.status())

    async def _health(self, _request: Request) -> Reply:
        state = self._application.state
        return json_reply({"state": str(state)}, status=200 if state.is_running_or_rebalancing else 503)

    async def _promote(self, request: Request) -> Reply:
        """Change the mode of execution; for this machine, or by HTTPS and with a login."""
        if not self._may_change:
            words = "from other machines the mode is changed by HTTPS and with http.listener.logins.file alone"
            raise HttpError(403, words)
        to, dry_run = await _wanted_mode(request)
        try:
            found = await asyncio.to_thread(lambda: self._application.promote(to, dry_run=dry_run))
        except KafkaError as error:
            raise HttpError(504 if error.code is ErrorCode.REQUEST_TIMED_OUT else 409, error.message) from None
        offsets = {str(place): offset for place, offset in sorted(found.offsets.items())}
        return json_reply({"before": found.before, "after": found.after, "offsets": offsets, "dry_run": dry_run})

    async def _metrics(self, _request: Request) -> Reply:
        return text_reply(
            metrics_text([self._application.status()], self._application.metrics()), content_type=PROMETHEUS
        )


async def _wanted_mode(request: Request) -> tuple[str, bool]:
    """Return which mode a request's JSON asks for, and whether it only asks if that may be; raises HttpError."""
    words = 'expected a body of application/json: {"to": "continuous" or "micro-batch", "dry_run": false}'
    if request.content_type != "application/json":
        raise HttpError(415, words)
    text = await request.text()
    try:
        given = json.loads(text) if len(text) <= BODY_LETTERS_MAX else None
    except (ValueError, RecursionError):
        given = None
    to, dry_run = (given.get("to"), given.get("dry_run", False)) if isinstance(given, Mapping) else (None, False)
    if not isinstance(to, str) or not isinstance(dry_run, bool):
        raise HttpError(400, words)
    return to, dry_run


def application_endpoints(prefix: str, of: Callable[[Request], ShownApplication]) -> Iterator[Endpoint[Handle]]:
    """Yield what is asked of the application that `of` finds for a request: its topology and its stores."""

    async def topology(request: Request) -> Reply:
        return text_reply(of(request).topology.describe())

    async def stores(request: Request) -> Reply:
        found = [
            {"name": each.name, "kind": each.kind, "key": each.key.name, "value": each.value.name}
            for each in of(request).topology.stores.values()
            if each.queryable
        ]
        return json_reply({"stores": found})

    async def store(request: Request) -> Reply:
        return await _looked_up(of(request), request.match_info["store"], dict(request.query))

    async def key(request: Request) -> Reply:
        asked = {**request.query, "key": request.match_info["key"]}
        return await _looked_up(of(request), request.match_info["store"], asked)

    one, query = f"{prefix}/stores/{{store}}", ("prefix", "low", "high", "from", "to", "as_of", "reverse", "limit")
    yield Endpoint("GET", f"{prefix}/topology", "Its plan", topology, Who.LOGGED_IN)
    yield Endpoint("GET", f"{prefix}/stores", "Stores that may be looked into", stores, Who.LOGGED_IN)
    yield Endpoint("GET", one, "Entries of a store", store, Who.LOGGED_IN, query=("key", *query))
    yield Endpoint("GET", f"{one}/keys/{{key}}", "The value of a key", key, Who.LOGGED_IN, query=query)


async def _looked_up(application: ShownApplication, name: str, asked: dict[str, str]) -> Reply:
    """Look up in a thread: the first lookup in a store waits until its changelog is read."""
    if name not in application.topology.stores:
        raise HttpError(404, f"no store {name}; /stores lists them")
    try:
        answer = await asyncio.to_thread(lambda: lookup(application.store(name), asked))
    except KafkaError as error:
        status = 503 if error.code is ErrorCode.REQUEST_TIMED_OUT else 400
        raise HttpError(status, error.message) from None
    is_missing = "value" in answer and answer["value"] is None
    return json_reply(answer, status=404 if is_missing else 200)
