"""What is compared after a start may be shortened by retention meanwhile, and by nothing else."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base import ErrorCode
from tests.sim import workload
from tests.sim.ledger import Ledger, Violation

ROWS = [(offset, b"v%d" % offset, 0) for offset in range(10)]


def read(monkeypatch: pytest.MonkeyPatch, starts: list[int], configs: dict[str, str]) -> Ledger:
    """Read a partition of ten records, four at a time, whose start is told to be these, one after another."""
    ledger = Ledger()
    ledger.created("t", b"id", 1, configs)
    told = iter(starts)

    async def list_offset(connection: Any, name: str, index: int, which: int) -> int:
        return len(ROWS) if which == workload.LATEST else next(told)

    async def fetch(connection: Any, topic: Any, index: int, at: int, **kwargs: Any) -> Any:
        code = ErrorCode.OFFSET_OUT_OF_RANGE if at == 4 else ErrorCode.NONE
        return SimpleNamespace(error_code=code, rows=[] if code else ROWS[at : at + 4])

    async def topics_of(connection: Any) -> dict[str, tuple[bytes, int]]:
        return {"t": (b"id", 1)}

    async def configs_of(connection: Any, names: list[str]) -> dict[str, dict[str, str]]:
        return {"t": configs}

    async def look_up(*args: Any) -> None:
        """Nothing is asked by time here."""

    for name, each in (
        ("list_offset", list_offset),
        ("fetch", fetch),
        ("topics_of", topics_of),
        ("configs_of", configs_of),
        ("_look_up", look_up),
        ("rows_of", lambda data, offset: data.rows),
    ):
        monkeypatch.setattr(workload, name, each)
    asyncio.run(workload.read_everything(SimpleNamespace(rng=Random(1)), ledger, lost_power=False))  # type: ignore[arg-type]
    return ledger


def test_reading_begins_anew_where_retention_has_deleted_what_was_next(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = read(monkeypatch, [0, 6], {"retention.bytes": "1"})
    assert sorted(ledger.partitions["t", 0].values) == [6, 7, 8, 9]


@pytest.mark.parametrize(("starts", "configs"), [([0, 4], {"retention.bytes": "1"}), ([0, 6], {})])
def test_a_log_that_lacks_what_it_begins_with_or_has_no_retention_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, starts: list[int], configs: dict[str, str]
) -> None:
    with pytest.raises(Violation, match="a fetch at 4 of 10 brought error 1"):
        read(monkeypatch, starts, configs)
