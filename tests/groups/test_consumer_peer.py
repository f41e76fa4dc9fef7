"""The life of consumer groups on a broker of ours and on Apache Kafka's: the same answers, and the same records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.wire import decode_coordinator_key, decode_coordinator_value, iter_batch_records, iter_batches
from tests import peer
from tests.groups.consumer_script import SETTINGS, play
from tests.ports import free_port
from tests.server import running_server

TOPIC = "__consumer_offsets"
OUT_OF_STEP = {"e"}
"""The group of expressions: Kafka resolves them beside the requests."""


def written(folder: Path) -> Iterator[tuple[str, str, int | None]]:
    """Yield (kind of record, group, version of the value or None for a tombstone) of the coordinator's log."""
    data = (folder / f"{TOPIC}-0" / "00000000000000000000.log").read_bytes()
    for header, position in iter_batches(data):
        for record in iter_batch_records(data, position, header):
            assert record.key is not None
            key = decode_coordinator_key(TOPIC, record.key)
            assert key is not None
            value = None if record.value is None else decode_coordinator_value(TOPIC, key, record.value)
            group = getattr(key, "group_id", None) or getattr(key, "group", "")
            kind = type(key).__name__
            # Of the metadata that brokers before 4.1 kept, Kafka writes a tombstone always, we where there is some.
            if group not in OUT_OF_STEP and kind != "ConsumerGroupPartitionMetadataKey":
                yield kind, group, None if value is None else value[1]


@pytest.mark.peer
@pytest.mark.slow  # two brokers start, and only a change of these APIs breaks it: with `make compat`
def test_consumer_groups_answer_and_write_as_kafkas_do(tmp_path: Path) -> None:
    with running_server(tmp_path, overrides=SETTINGS) as server:
        ours = play(server.port)
    port = free_port()
    with peer.running_broker(tmp_path / "kafka", port, overrides=SETTINGS):
        theirs = play(port)
    different = [(name, mine, kafkas) for (name, mine), (_, kafkas) in zip(ours, theirs, strict=True) if mine != kafkas]
    assert not different, "\n".join(f"{name}\n  ours   {mine}\n  Kafka's {kafkas}" for name, mine, kafkas in different)
    assert sorted(written(tmp_path / "data"), key=repr) == sorted(written(tmp_path / "kafka" / "data"), key=repr)
