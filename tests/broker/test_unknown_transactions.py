"""Logs of which nothing says what was aborted: the log itself does, and it is read in a worker process."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ErrorCode, Millis, NoSpaceError, ProducerEpoch, ProducerId
from ottla.broker import ThreadsAndProcess
from ottla.broker.replicas.local_partition import LocalPartition
from ottla.log.segments import Segments
from ottla.wire import iter_batches
from tests.broker.node_client import NodeClient, batch, parts, run, running_node
from tests.log.records import NOW, marker


class _Noted(ThreadsAndProcess):
    """Notes what is read in another process; fails as often as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.errors: list[Exception] = []

    async def background(self, call: Callable[..., Any], /, *args: object) -> Any:
        self.calls.append(call.__name__)
        if self.errors:
            raise self.errors.pop()
        return await super().background(call, *args)


def partition_of(client: NodeClient) -> LocalPartition:
    found = parts(client.node).partitions.get("t", 0)
    assert found is not None
    return found


async def fill(client: NodeClient) -> None:
    """Write transactions that end either way, one after the other, in segments of two batches."""
    await client.create("t")
    partition = partition_of(client)
    partition.log.config = replace(partition.log.config, segment_bytes=300)
    for at in range(8):
        producer = {"producer_id": ProducerId(7), "producer_epoch": ProducerEpoch(0), "base_sequence": at}
        made = bytearray(batch(b"aborted" if at % 2 else b"kept", transactional=True, **producer))
        partition.log.append(made, leader_epoch=0, now_ms=NOW)
        partition.append_marker(bytearray(marker(7, 0, commit=not at % 2)), now_ms=Millis(NOW), is_bumped=False)
    assert partition.log.segment_count > 4


def forget(folder: Path) -> None:
    """Take away all that tells which transactions were aborted, but for the log."""
    (folder / "t-0" / "derived-sums").unlink()
    for path in (folder / "t-0").glob("*.txnindex"):
        path.unlink()


async def committed(client: NodeClient) -> list[bytes | None]:
    """Return what a client that reads committed records shows."""
    found: list[bytes | None] = []
    offset, end = 0, partition_of(client).log.log_end_offset
    while offset < end:
        answer = await client.fetch("t", offset, isolation_level=1, max_wait_ms=60_000)
        assert answer.error_code == 0
        aborted = {each.first_offset for each in answer.aborted_transactions or ()}
        for header, _ in iter_batches(answer.records or b""):
            offset = header.next_offset
            if not header.is_control and header.base_offset not in aborted:
                found += [b"kept" if header.base_offset % 4 == 0 else b"aborted"]
    return found


def test_read_committed_shows_no_aborted_record_of_a_log_without_its_transaction_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await fill(client)
        forget(tmp_path)
        offload = _Noted()
        async with running_node(tmp_path, offload=offload) as client:
            monkeypatch.setattr(Segments, "aborted", lambda *args: pytest.fail("read on the event loop"))
            assert await committed(client) == [b"kept"] * 4
            assert offload.calls.count("examine") >= 1
            count = len(offload.calls)
            assert await committed(client) == [b"kept"] * 4
            assert len(offload.calls) == count, "what was read once is known"

    run(test)


def test_a_fetch_hears_why_a_log_cannot_be_read_for_its_transactions(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path) as client:
            await fill(client)
        forget(tmp_path)
        offload = _Noted()
        async with running_node(tmp_path, offload=offload) as client:
            offload.errors = [NoSpaceError("no descriptor is left")]
            answer = await client.fetch("t", 0, isolation_level=1, max_wait_ms=60_000)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert not answer.records
            assert await committed(client) == [b"kept"] * 4

    run(test)


class _Killed(_Noted):
    """Has worker processes that are killed under what they work on, as often as it is told."""

    deaths = 2

    async def background(self, call: Callable[..., Any], /, *args: object) -> Any:
        if self.deaths:
            self.deaths -= 1
            return await ThreadsAndProcess.background(self, os._exit, 9)
        return await super().background(call, *args)


def test_a_fetch_hears_that_the_process_was_killed_which_looked_for_transactions(tmp_path: Path) -> None:
    """It waited, and processes were begun one after the other, for as long as they were killed."""

    async def test() -> None:
        async with running_node(tmp_path) as client:
            await fill(client)
        forget(tmp_path)
        offload = _Killed()
        async with running_node(tmp_path, offload=offload) as client:
            answer = await client.fetch("t", 0, isolation_level=1, max_wait_ms=60_000)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert not answer.records and offload.deaths == 1
            offload.deaths = 0
            assert await committed(client) == [b"kept"] * 4

    run(test)
