"""Queries are started as many at a time as the processors can make sources for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.spark.streams import starts
from ottla.spark.streams.starts import QueryStarts, worker_was_late


class Query:
    """A query that initialises for as many looks as it is told."""

    def __init__(self, looks: int, is_active: bool = True) -> None:
        self.looks = looks
        self.isActive = is_active

    @property
    def status(self) -> dict[str, Any]:
        self.looks -= 1
        return {"message": "Initializing sources" if self.looks >= 0 else "Waiting for data to arrive"}


class Writer:
    def __init__(self, query: Query) -> None:
        self.query = query

    def start(self) -> Query:
        return self.query


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How often was waited, without waiting."""
    waited: list[float] = []
    monkeypatch.setattr(starts.time, "sleep", waited.append)
    return waited


def start(queries: QueryStarts, query: Query) -> None:
    assert queries.start(cast(Any, Writer(query))) is cast(Any, query)


def test_a_query_waits_until_an_earlier_one_has_made_its_sources(looks: list[float]) -> None:
    queries = QueryStarts(at_once=2)
    start(queries, Query(looks=100))
    start(queries, Query(looks=5))
    assert not looks, "there was room for both"
    start(queries, Query(looks=5))
    assert len(looks) > 2


def test_a_query_that_has_failed_is_not_waited_for(looks: list[float]) -> None:
    queries = QueryStarts(at_once=1)
    start(queries, Query(looks=10_000, is_active=False))
    start(queries, Query(looks=5))
    assert not looks


def test_a_query_that_never_initialises_holds_others_up_for_a_bounded_time(
    looks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts.time, "monotonic", lambda: float(len(looks)))
    queries = QueryStarts(at_once=1)
    start(queries, Query(looks=10_000))
    start(queries, Query(looks=5))
    assert len(looks) == pytest.approx(starts.PATIENCE_SECONDS, abs=2)


def test_a_late_process_is_told_from_an_error_of_the_plan() -> None:
    assert worker_was_late(RuntimeError("[STREAM_FAILED] … SparkException: Python worker failed to connect back."))
    assert not worker_was_late(RuntimeError("[STREAM_FAILED] … ProcessingError: record 3 of said"))
