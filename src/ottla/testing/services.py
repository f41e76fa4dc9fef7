"""A schema registry, a Connect worker and a SQL server beside the tests' broker: each an address and a small handle."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ottla.base import OttlaError
from ottla.testing.processes import READY_SECONDS, ChildProcess

__all__ = ["Connect", "SchemaRegistry", "ServiceError", "Sql", "running_connect", "running_registry", "running_sql"]

ANY_PORT = "http://127.0.0.1:0"
CONNECT_SECONDS = 120.0
"""A worker's start has Spark's in it."""
ANSWER_SECONDS = 60.0
POLL_SECONDS = 0.05

CONNECT_DEFAULTS: Mapping[str, str] = {
    "group.id": "connect-tests",
    "offset.storage.topic": "connect-tests-offsets",
    "config.storage.topic": "connect-tests-configs",
    "status.storage.topic": "connect-tests-status",
    **{f"{each}.storage.replication.factor": "1" for each in ("offset", "config", "status")},
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "offset.flush.interval.ms": "200",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class ServiceError(OttlaError):
    """A service has refused a request: its status, its own code, and its words."""

    def __init__(self, status: int, message: str, code: int | None = None) -> None:
        super().__init__(f"{message} (status {status})")
        self.status = status
        self.code = code
        self.message = message


class Service:
    """A REST interface in JSON."""

    def __init__(self, url: str, *, log_lines: Callable[[], Sequence[str]] = tuple, content_type: str) -> None:
        """`log_lines` returns what the service has logged so far."""
        self.url = url
        """`http://host:port`, for any client."""
        self.log_lines = log_lines
        self._content_type = content_type

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url})"

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return what it answers, None for nothing; raises ServiceError where it is refused."""
        import urllib.error
        import urllib.request

        from ottla.client import bounded, web_answer

        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": self._content_type, "Accept": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with web_answer(request, answer_s=ANSWER_SECONDS) as answer:
                text = bounded(answer)
        except urllib.error.HTTPError as error:
            raise _refused(error.code, error.read()) from None
        return json.loads(text) if text.strip() else None


def _refused(status: int, text: bytes) -> ServiceError:
    try:
        found = json.loads(text)
        return ServiceError(status, str(found["message"]), found.get("error_code"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ServiceError(status, text.decode(errors="replace"))


class SchemaRegistry(Service):
    """A schema registry's address, for any client, and the calls that tests make most."""

    def register(self, subject: str, schema: Mapping[str, Any] | str, *, schema_type: str = "AVRO") -> int:
        """Register a schema and return its id; a mapping is sent as JSON. Raises ServiceError where it is refused."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text} if schema_type == "AVRO" else {"schema": text, "schemaType": schema_type}
        found = self.request("POST", f"/subjects/{quote(subject, safe='')}/versions", body)
        return int(found["id"])

    def subjects(self) -> list[str]:
        """Return the names of all subjects."""
        return [str(each) for each in self.request("GET", "/subjects")]

    def latest(self, subject: str) -> dict[str, Any]:
        """Return a subject's newest schema, as the registry says it: `id`, `version`, `schema`."""
        found: dict[str, Any] = self.request("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        return found


class Connect(Service):
    """A Connect worker's address, and its connectors."""

    def create(self, name: str, config: Mapping[str, Any], *, seconds: float = CONNECT_SECONDS) -> None:
        """Create a connector, or give it another configuration, and return when it and its tasks run.

        Raises ServiceError where it is refused, or where it or a task has failed, with its trace; TimeoutError where it
        does not run within `seconds`.
        """
        self.request("PUT", f"/connectors/{quote(name, safe='')}/config", {key: str(it) for key, it in config.items()})
        self.wait_until_running(name, seconds=seconds)

    def status(self, name: str) -> dict[str, Any]:
        """Return a connector's status, as Connect says it."""
        found: dict[str, Any] = self.request("GET", f"/connectors/{quote(name, safe='')}/status")
        return found

    def wait_until_running(self, name: str, *, seconds: float = CONNECT_SECONDS) -> None:
        """Return when a connector and at least one task of it run; raises as `create`."""
        deadline = time.monotonic() + seconds
        while True:
            status = self._status_or_none(name)
            parts = [] if status is None else [status["connector"], *status["tasks"]]
            for each in parts:
                if each["state"] == "FAILED":
                    raise ServiceError(500, f"connector {name} has failed: {each.get('trace', '')}")
            if len(parts) > 1 and all(each["state"] == "RUNNING" for each in parts):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"connector {name} does not run after {seconds:g} s: {status}")
            time.sleep(POLL_SECONDS)

    def _status_or_none(self, name: str) -> dict[str, Any] | None:
        try:
            return self.status(name)
        except ServiceError as error:
            if error.status in (404, 409):  # not there yet, or its worker takes its place in the group
                return None
            raise

    def delete(self, name: str) -> None:
        """Delete a connector."""
        self.request("DELETE", f"/connectors/{quote(name, safe='')}")


class Sql(Service):
    """A SQL server's address, and its statements."""

    def run(self, statements: str, **properties: Any) -> list[dict[str, Any]]:
        """Run statements and return what each answers; properties as `auto_offset_reset="earliest"`.

        Raises ServiceError where a statement is refused.
        """
        found: list[dict[str, Any]] = self.request("POST", "/ksql", self._body(statements, properties))
        return found

    def query(self, select: str, **properties: Any) -> list[list[Any]]:
        """Return the rows of a query that ends: a pull query, or one with LIMIT. Raises ServiceError where it is refused."""
        found = self.request("POST", "/query", self._body(select, properties))
        rows = []
        for each in found:
            if "errorMessage" in each:
                raise ServiceError(200, str(each["errorMessage"]))
            if "row" in each:
                rows.append(list(each["row"]["columns"]))
        return rows

    @staticmethod
    def _body(statement: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        named = {f"ksql.streams.{key.replace('_', '.')}": value for key, value in properties.items()}
        return {"ksql": statement, "streamsProperties": named}


@contextmanager
def running_registry(
    bootstrap_servers: str, settings: Mapping[str, object], *, folder: Path, ready_seconds: float = READY_SECONDS
) -> Iterator[SchemaRegistry]:
    """Run a schema registry until the block ends; raises StartError where it does not get ready."""
    own = {**settings, "listeners": ANY_PORT, "kafkastore.bootstrap.servers": f"PLAINTEXT://{bootstrap_servers}"}
    with _running(["registry", "start", *_overrides(own)], folder, ready_seconds) as process:
        yield SchemaRegistry(
            process.address, log_lines=lambda: process.lines, content_type="application/vnd.schemaregistry.v1+json"
        )


@contextmanager
def running_sql(
    bootstrap_servers: str, settings: Mapping[str, object], *, folder: Path, ready_seconds: float = READY_SECONDS
) -> Iterator[Sql]:
    """Run a SQL server until the block ends, its queries in its own threads; raises StartError where it is not ready.

    `ottla.sql.engine=spark` among the settings has them run on Spark.
    """
    own = {"ottla.sql.engine": "python", **settings, "listeners": ANY_PORT, "bootstrap.servers": bootstrap_servers}
    with _running(["sql", "server", *_overrides(own)], folder, ready_seconds) as process:
        yield Sql(process.address, log_lines=lambda: process.lines, content_type="application/json")


@contextmanager
def running_connect(
    bootstrap_servers: str, settings: Mapping[str, object], *, folder: Path, ready_seconds: float = CONNECT_SECONDS
) -> Iterator[Connect]:
    """Run a Connect worker until the block ends; raises StartError where it does not get ready, as without Java."""
    own = {**CONNECT_DEFAULTS, **settings, "listeners": ANY_PORT, "bootstrap.servers": bootstrap_servers}
    path = folder / "worker.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in own.items()))
    arguments = ["connect-distributed", str(path), "--log-level", "warning"]
    with _running(arguments, folder, max(ready_seconds, CONNECT_SECONDS)) as process:
        yield Connect(process.address, log_lines=lambda: process.lines, content_type="application/json")


def _overrides(settings: Mapping[str, object]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--override", f"{key}={value}")]


@contextmanager
def _running(arguments: Sequence[str], folder: Path, ready_seconds: float) -> Iterator[ChildProcess]:
    process = ChildProcess("ottla.testing.child", arguments, folder=folder, ready_seconds=ready_seconds)
    try:
        yield process
    finally:
        process.stop()
