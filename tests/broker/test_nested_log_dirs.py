"""A log directory within another one is never taken for a log of it, whatever it is called."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.base import ErrorCode
from tests.broker.node_client import batch, delete_topic, run, running_node


def other_server(path: Path) -> dict[Path, bytes]:
    """Make a folder as a server of its own keeps it; returns its files."""
    (path / "orders-0").mkdir(parents=True)
    (path / "meta.properties").write_text(
        "version=1\nnode.id=7\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n"
    )
    (path / "orders-0" / "00000000000000000000.log").write_bytes(b"records of another server")
    return contents(path)


def contents(path: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("is_there_first", [True, False])
def test_a_topic_made_and_deleted_takes_nothing_of_a_log_directory_of_its_name(
    tmp_path: Path, is_there_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"

    async def test() -> None:
        there = other_server(data / "t-0") if is_there_first else {}
        with caplog.at_level(logging.WARNING):
            async with running_node(data) as client:
                there = there or other_server(data / "t-0")
                await client.create("t")
                assert (await client.produce("t", batch(b"a"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
                await client.create("u")
                assert (await client.produce("u", batch(b"a"))).error_code == 0, "it costs no other partition"
                await delete_topic(client)
                await client.node.housekeeping.delete()
        assert contents(data / "t-0") == there
        assert "is a log directory of its own" in caplog.text
        assert not is_there_first or "holds other log directories" in caplog.text

    run(test)


def test_a_partition_goes_where_its_name_is_free(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    there = other_server(a / "t-0")

    async def test() -> None:
        async with running_node(a, f"log.dirs={a},{b}") as client:
            await client.create("t")
            assert (await client.produce("t", batch(b"a"))).error_code == 0
        assert contents(a / "t-0") == there and (b / "t-0").is_dir()

    run(test)


def test_a_deletion_that_was_begun_before_leaves_a_log_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def test() -> None:
        async with running_node(data):
            pass
        there = other_server(data / "t-0.0123456789abcdef-delete")
        async with running_node(data) as client:
            await client.node.housekeeping.delete()
        assert contents(data / "t-0.0123456789abcdef-delete") == there

    run(test)


def test_what_was_left_as_it_is_is_kept_when_a_topic_of_its_name_is_made(tmp_path: Path) -> None:
    data, away = tmp_path / "data", tmp_path / "away"

    async def test() -> None:
        async with running_node(data) as client:
            await client.create("t")
            assert (await client.produce("t", batch(b"kept"))).error_code == 0
        (data / "t-0").rename(away)
        async with running_node(data) as client:
            await delete_topic(client)
        away.rename(data / "t-0")
        async with running_node(data) as client:
            await client.create("t")
            assert (await client.produce("t", batch(b"new"))).error_code == 0
            await client.node.housekeeping.delete()
            (kept,) = data.glob("t-0.*-stray")
            assert b"kept" in (kept / "00000000000000000000.log").read_bytes()

    run(test)
