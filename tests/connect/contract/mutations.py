"""Faults that a task's loop had, to be put back: each with the contract, the scenario and the failure that find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from ottla.connect import SourceColumns, SourceRecord
from ottla.connect.tasks.loop_sink import SinkLoop
from ottla.connect.tasks.loop_source import SourceLoop
from ottla.connect.tasks.source_offsets import AtLeastOnce, ExactlyOnce
from ottla.connect.testing import Fault, Injected, Position, Scenario, Trouble

__all__ = ["MUTATIONS", "Mutation"]

Put = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutation:
    """A fault, as what stands in whose place, and the case that has to find it."""

    name: str
    contract: str
    """`source` or `sink`: which of the files' connectors."""

    scenario: Scenario
    injected: Injected | None
    puts: Callable[[], list[Put]]

    @contextmanager
    def made(self) -> Iterator[None]:
        """Have the fault until the block ends."""
        with ExitStack() as stack:
            for owner, name, new in self.puts():
                stack.enter_context(patch.object(owner, name, new))
            yield


def _last_offset_everywhere() -> list[Put]:
    before = SourceColumns.records

    def records(columns: SourceColumns) -> list[SourceRecord]:
        return [each.replace(source_offset=columns.source_offset) for each in before(columns)]

    return [(SourceColumns, "records", records)]


def _from_the_first_row() -> list[Put]:
    before = SourceLoop._send

    def send(loop: SourceLoop) -> bool:
        polled = list(loop._to_send)
        if before(loop):
            return True
        first = next((at for at, each in enumerate(polled) if each is not loop._to_send[at]), None)
        if first is not None:
            loop._to_send, loop._sent = polled, first
        return False

    return [(SourceLoop, "_send", send)]


def _nothing_stored_of_what_is_dropped() -> list[Put]:
    return [(each, "dropped", lambda offsets, record: None) for each in (AtLeastOnce, ExactlyOnce)]


def _committed_between_rows() -> list[Put]:
    return [(ExactlyOnce, "paused", ExactlyOnce.commit)]


def _given_back_without_a_commit() -> list[Put]:
    before = SinkLoop._close_partitions

    def close(loop: SinkLoop, partitions: Any, *, lost: bool) -> None:
        before(loop, partitions, lost=True)

    return [(SinkLoop, "_close_partitions", close)]


FIRST, LAST = Position.FIRST, Position.LAST
AT_LEAST_ONCE, EXACTLY_ONCE = False, True
MUTATIONS = (
    Mutation(
        "every row of a column has the poll's last offset, at least once",
        "source",
        Scenario(Trouble.ROUTED, LAST, AT_LEAST_ONCE),
        Injected("create a topic", 2, Fault.FATAL),
        _last_offset_everywhere,
    ),
    Mutation(
        "every row of a column has the poll's last offset, exactly once",
        "source",
        Scenario(Trouble.ROUTED, LAST, EXACTLY_ONCE),
        Injected("create a topic", 3, Fault.RETRIABLE_STOP),
        _last_offset_everywhere,
    ),
    Mutation(
        "a retry begins at a column's first row",
        "source",
        Scenario(Trouble.ROUTED, LAST, EXACTLY_ONCE),
        Injected("create a topic", 3, Fault.RETRIABLE),
        _from_the_first_row,
    ),
    Mutation(
        "rows are committed before the offset behind their column",
        "source",
        Scenario(Trouble.REFUSED, FIRST, EXACTLY_ONCE),
        Injected("create a topic", 2, Fault.RETRIABLE_STOP),
        _committed_between_rows,
    ),
    Mutation(
        "a row that is left out stores no offset, at least once",
        "source",
        Scenario(Trouble.FILTERED, LAST, AT_LEAST_ONCE),
        None,
        _nothing_stored_of_what_is_dropped,
    ),
    Mutation(
        "a row that is left out stores no offset, exactly once",
        "source",
        Scenario(Trouble.FILTERED, LAST, EXACTLY_ONCE),
        None,
        _nothing_stored_of_what_is_dropped,
    ),
    Mutation(
        "partitions are given back without a commit",
        "sink",
        Scenario(Trouble.ROUTED, Position.MIDDLE, AT_LEAST_ONCE),
        Injected("put", 1, Fault.REVOKED),
        _given_back_without_a_commit,
    ),
)
