"""A server's metrics, in Prometheus' text form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.background import failure_counts
from ottla.sql_server.processing_log import lines_told
from ottla.sql_server.rest.serving import Serving
from ottla.sql_server.server import SqlServer

__all__ = ["metrics_text"]

Sample = tuple[str, str, float]
"""What stands behind the name, labels, and a value."""


def metrics_text(server: SqlServer, serving: Serving) -> str:
    """Return every metric with what it means."""
    pulling, pushing = server.pulling, server.pushing
    states = [server.hosts.status(each)[0] for each in server.state.queries.values()]
    facts = {each: server.hosts.facts(each) for each in server.state.queries}
    latency = pulling.latency
    parts = [
        _metric("queries", "gauge", "Persistent queries by state.", _by_state(states)),
        _metric(
            "query_records_total", "counter", "Records that a query has read here.", _by_query(facts.items(), "rows")
        ),
        _metric("query_lag", "gauge", "Records that a query has still to read.", _by_query(facts.items(), "lag")),
        _one("runs_queries", "gauge", "Whether this server runs the service's queries.", server.hosts.has_office),
        _one("push_queries", "gauge", "Push queries that run.", len(pushing.queries)),
        _one("push_rows_total", "counter", "Rows that push queries have given.", pushing.rows),
        _one("pull_queries_running", "gauge", "Pull queries that are being answered.", pulling.running),
        _one("pull_queries_total", "counter", "Pull queries that were answered.", pulling.answered),
        _metric("pull_seconds", "histogram", "How long pull queries took.", latency.samples()),
        _one("followed_tables", "gauge", "Tables that pull queries look into.", pulling.followed),
        _one("followed_rows", "gauge", "Rows of those tables.", pulling.rows),
        _one("processing_log_lines_total", "counter", "Lines of the processing log in this process.", lines_told()),
        _one("command_offset", "gauge", "The last command that was taken in.", server.command_offset),
        _one("requests_total", "counter", "Requests.", serving.requests),
        _one("errors_total", "counter", "Requests that were refused.", serving.errors),
        _one("own_failures_total", "counter", "Mistakes of the server's own, which its log tells.", _failures()),
        _one("degraded", "gauge", "Whether a command could not be carried out.", server.degraded is not None),
    ]
    return "".join(parts)


def _failures() -> int:
    return sum(failure_counts().values())


def _metric(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP ottla_sql_{name} {meaning}", f"# TYPE ottla_sql_{name} {kind}"]
    lines += [f"ottla_sql_{name}{behind}{labels} {value:.10g}" for behind, labels, value in samples]
    return "\n".join(lines) + "\n"


def _one(name: str, kind: str, meaning: str, value: float) -> str:
    return _metric(name, kind, meaning, [("", "", value)])


def _by_state(states: list[str]) -> list[Sample]:
    return [("", f'{{state="{each}"}}', states.count(each)) for each in ("RUNNING", "PAUSED", "ERROR")]


def _by_query(facts: Iterable[tuple[str, Mapping[str, Any]]], name: str) -> list[Sample]:
    return [("", f'{{query="{query}"}}', found.get(name, 0)) for query, found in facts]
