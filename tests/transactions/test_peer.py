"""The same requests to Ottla and to Apache Kafka: the same codes, epochs and offsets; and Kafka reads our records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base import ErrorCode
from tests import peer
from tests.ports import free_port
from tests.server import running_server
from tests.transactions.talker import Talker, transactional_batch

pytestmark = [
    pytest.mark.peer,
    pytest.mark.slow,  # a JVM starts beside our broker, and only a change of these APIs breaks it: with `make compat`
    pytest.mark.xdist_group("peer"),
    pytest.mark.skipif(bool(peer.missing()), reason=peer.missing() or ""),
]
Answer = tuple[str, object]


def story(talker: Talker) -> Iterator[Answer]:
    """Yield what a broker answers to one long conversation, each under a name."""
    talker.create("t", 2)
    talker.coordinate("a")
    talker.coordinate("g", 0)
    yield from first_protocol(talker)
    epoch = patient_init(talker, "a")
    yield "the epoch after a fence", epoch
    yield from refused(talker, epoch)
    yield from second_protocol(talker, epoch)
    yield from identities(talker)


def first_protocol(talker: Talker) -> Iterator[Answer]:
    yield "init", talker.init("a")
    yield "add", talker.add("a", 0, 0, ("t", 0), ("t", 1))
    yield "produce", talker.produce("a", "t", transactional_batch(0, 0, 0, b"x"), version=11)
    yield "init while open", talker.init("a")[0]


def patient_init(talker: Talker, name: str) -> int:
    """Initialise until nothing is in the way; return the epoch."""
    for _ in range(500):
        code, _, epoch = talker.init(name)
        if code == 0:
            return epoch
        assert code == ErrorCode.CONCURRENT_TRANSACTIONS
        talker.settle(name)  # Kafka writes its markers on another thread
    raise AssertionError("the transaction before is never aborted")


def refused(talker: Talker, epoch: int) -> Iterator[Answer]:
    for version in (1, 2, 3):
        yield f"add {version} fenced", talker.add("a", 0, 0, ("t", 0), version=version)
    for version in (1, 2, 4, 5):
        yield f"end {version} fenced", talker.end("a", 0, 0, commit=True, version=version)
    for version in (9, 10, 11, 12):
        late = transactional_batch(0, 0, 1, b"late")
        yield f"produce {version} fenced", talker.produce("a", "t", late, version=version)
        unknown = transactional_batch(0, epoch, 0, b"x")
        if version < 12:
            yield f"produce {version} unverified", talker.produce("a", "t", unknown, version=version)
        early = transactional_batch(0, epoch + 5, 0, b"x")
        yield f"produce {version} ahead", talker.produce("a", "t", early, version=version)
        stranger = transactional_batch(99, 0, 0, b"x")
        yield f"produce {version} stranger", talker.produce("a", "t", stranger, version=version)
    yield "produce without an id", talker.produce(None, "t", transactional_batch(0, epoch, 0, b"x"))
    yield "add of a stranger", talker.add("a", 7, epoch, ("t", 0))
    yield "add to nothing", talker.add("z", 0, epoch, ("t", 0))
    yield "end of nothing", talker.end("z", 0, epoch, commit=True)
    yield "add of an absent topic", talker.add("a", 0, epoch, ("t", 0), ("absent", 0))
    for version in (4, 5):
        yield f"end {version} of an empty one", talker.end("a", 0, epoch, commit=True, version=version)
    yield "abort 4 of an empty one", talker.end("a", 0, epoch, commit=False, version=4)


def second_protocol(talker: Talker, epoch: int) -> Iterator[Answer]:
    yield "abort 5 of an empty one", talker.end("a", 0, epoch, commit=False)
    talker.settle("a")
    yield "abort asked again", talker.end("a", 0, epoch, commit=False)
    yield "commit after abort", talker.end("a", 0, epoch, commit=True)
    epoch += 1
    batch = transactional_batch(0, epoch, 0, b"y")
    yield "first sequence 1", talker.produce("a", "t", transactional_batch(0, epoch, 1, b"y"), index=1)
    yield "produce adds", talker.produce("a", "t", batch)
    yield "produce again", talker.produce("a", "t", batch)
    plain = transactional_batch(0, epoch, 1, b"y", transactional=False)
    yield "produce outside", talker.produce("a", "t", plain)
    for version in (4, 5):
        verified = talker.add_as_broker("a", 0, epoch, ("t", 0), ("t", 1), verify_only=True, version=version)
        yield f"verify {version}", verified
    yield "stable end", (talker.end_offset("t"), talker.end_offset("t", isolation=0))
    yield "offset", talker.commit_offsets("a", 0, epoch, "g", "t", 5)
    yield "offset while open", (talker.fetch_offset("g", "t"), talker.fetch_offset("g", "t", stable=True))
    yield "offset of a member", talker.commit_offsets("a", 0, epoch, "g2", "t", 7, generation=3, member="x")
    yield "commit", talker.end("a", 0, epoch, commit=True)
    talker.settle("a")
    yield "commit asked again", talker.end("a", 0, epoch, commit=True)
    yield "abort after commit", talker.end("a", 0, epoch, commit=False)
    yield "offset after", (talker.fetch_offset("g", "t"), talker.fetch_offset("g", "t", stable=True))
    yield "late produce", talker.produce("a", "t", transactional_batch(0, epoch, 1, b"late"))
    yield "stable end after", talker.end_offset("t")
    for version in (3, 4, 5):
        yield f"offset {version} fenced", talker.commit_offsets("a", 0, epoch, "g", "t", 6, version=version)
    epoch += 1
    for version in (3, 4):
        yield f"offset {version} unverified", talker.commit_offsets("a", 0, epoch, "g", "t", 6, version=version)
    yield "add offsets", talker.add_offsets("a", 0, epoch, "g")
    yield "offset added", talker.commit_offsets("a", 0, epoch, "g", "t", 7, version=4)
    yield "abort 4", talker.end("a", 0, epoch, commit=False, version=4)
    talker.settle("a")
    yield "abort 4 again", talker.end("a", 0, epoch, commit=False, version=4)
    yield "offset after abort", talker.fetch_offset("g", "t", stable=True)


def identities(talker: Talker) -> Iterator[Answer]:
    epoch = patient_init(talker, "a")
    yield "init as a stranger", talker.init("a", producer_id=3, epoch=epoch)
    yield "init as an old one", talker.init("a", producer_id=0, epoch=epoch - 1)
    yield "init as an old one, 3", talker.init("a", producer_id=0, epoch=epoch - 1, version=3)
    yield "init as itself", talker.init("a", producer_id=0, epoch=epoch)
    yield "init as itself again", talker.init("a", producer_id=0, epoch=epoch)
    for timeout_ms in (0, -1, 900_001):
        yield f"timeout {timeout_ms}", talker.init("b", timeout_ms=timeout_ms)
    yield "empty id", talker.init("")
    yield "half an identity", talker.init("b", producer_id=5)
    yield "an identity nobody knows", talker.init("c", producer_id=5, epoch=3)[::2]


def states(folder: Path) -> list[dict[str, object]]:
    """Return the values of `__transaction_state` under a data folder for the id `a`, as Kafka's dump-log decodes them."""
    found = []
    for file in sorted(folder.glob("__transaction_state-*/*.log")):
        if file.stat().st_size:
            printed = peer.tool("dump-log", "--transaction-log-decoder", "--files", str(file)).stdout
            found += re.findall(r'"transactionalId":"a".*?payload: (\{.*\})', printed)
    return [normal(json.loads(each)) for each in found]


def normal(record: dict[str, dict[str, object]]) -> dict[str, object]:
    """Leave out times, and the order of partitions."""
    value = dict(record["data"], version=record["version"])
    value.pop("transactionLastUpdateTimestampMs")
    value["hasStarted"] = value.pop("transactionStartTimestampMs") != -1
    partitions = value["transactionPartitions"]
    if isinstance(partitions, list):
        value["transactionPartitions"] = sorted(
            (each["topic"], index) for each in partitions for index in each["partitionIds"]
        )
    return value


def test_ottla_answers_what_kafka_answers_and_writes_what_kafka_writes(tmp_path: Path) -> None:
    port = free_port()
    with peer.running_broker(tmp_path / "kafka", port), Talker(port) as talker:
        theirs = dict(story(talker))
    with running_server(tmp_path) as server, Talker(server.port) as talker:
        ours = dict(story(talker))
    assert ours == theirs
    assert states(tmp_path / "data") == states(tmp_path / "kafka" / "data")
