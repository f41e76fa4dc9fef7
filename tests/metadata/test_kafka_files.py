"""A metadata log and snapshot that Apache Kafka 4.3.0 wrote: topics made, grown, altered and deleted, a SCRAM user, a
quota, producer ids, clean restarts and a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ottla.base import LeaderEpoch, Offset
from ottla.metadata import EMPTY_IMAGE, UNSERVED_FEATURES, Image, apply_all, decide, record_version, snapshot_records
from ottla.raft import ReplicatedBatch, VoterHistory, observed, read_batches
from ottla.wire import decode_metadata_record, encode_metadata_record, iter_batch_records

FOLDER = Path(__file__).parent / "kafka"
END_OFFSET, EPOCH = 543, 11


def values(batch: ReplicatedBatch) -> list[bytes]:
    return [record.value or b"" for record in iter_batch_records(batch.data, 0, batch.header)]


def records_of(batch: ReplicatedBatch) -> list:
    return [decode_metadata_record(value)[0] for value in values(batch)]


def replayed_log() -> tuple[Image, VoterHistory]:
    image, voters = EMPTY_IMAGE, VoterHistory()
    for batch in read_batches((FOLDER / "00000000000000000000.log").read_bytes()):
        if batch.header.base_offset >= END_OFFSET:
            break
        voters = observed(voters, batch)
        if not batch.header.is_control:
            image = apply_all(image, records_of(batch), batch.header.base_offset, batch.epoch)
    return image, voters


def snapshot() -> tuple[Image, VoterHistory, list[bytes]]:
    image, voters, found = EMPTY_IMAGE, VoterHistory(), []
    path = FOLDER / f"{END_OFFSET:020d}-{EPOCH:010d}.checkpoint"
    for batch in read_batches(path.read_bytes()):
        voters = observed(voters, batch)
        if not batch.header.is_control:
            found += values(batch)
            image = apply_all(image, records_of(batch), Offset(0), LeaderEpoch(0))
    return image, voters, found


def at_start(image: Image) -> Image:
    return replace(image, offset=Offset(0), epoch=LeaderEpoch(0))


def test_replaying_kafkas_log_gives_the_image_of_kafkas_snapshot() -> None:
    assert at_start(replayed_log()[0]) == at_start(snapshot()[0])


def test_the_log_and_the_snapshot_name_the_same_voters() -> None:
    from_log, from_snapshot = replayed_log()[1], snapshot()[1]
    assert from_log.latest == from_snapshot.latest and from_log.latest.ids == (1,)
    assert from_log.kraft_version == from_snapshot.kraft_version == 1


def test_what_the_scenario_made_is_there() -> None:
    image, _ = replayed_log()
    assert sorted(image.topics) == ["alpha", "assigned", "beta"]
    assert [len(image.topics[name].partitions) for name in sorted(image.topics)] == [3, 2, 4]
    assert dict(image.topic_config("alpha")) == {"cleanup.policy": "compact,delete"}
    assert dict(image.broker_config(1)) == {"log.cleaner.threads": "2"}
    assert image.next_producer_id == 1000
    assert list(image.scram_credentials) == [("bob", 1)]
    assert {dict(entity)["user"]: dict(values) for entity, values in image.client_quotas.items()} == {
        "bob": {"producer_byte_rate": 1024.0}
    }


def test_our_snapshot_of_the_image_holds_the_same_bytes_as_kafkas() -> None:
    image, _, theirs = snapshot()
    ours = [
        encode_metadata_record(record, record_version(record, image.metadata_version))
        for record in snapshot_records(image)
    ]
    assert sorted(map(_without_feature_order, ours)) == sorted(map(_without_feature_order, theirs))


def _without_feature_order(value: bytes) -> bytes:
    """Return the value with its features sorted: Kafka lists a broker's in no particular order."""
    record, version = decode_metadata_record(value)
    features = getattr(record, "features", None)
    if features is not None:
        record = record.replace(features=sorted(features, key=lambda each: each.name))
    return encode_metadata_record(record, version)


def test_formatting_leaves_what_kafka_leaves_but_for_what_nothing_serves() -> None:
    theirs = [
        value
        for batch in read_batches((FOLDER / "bootstrap.checkpoint").read_bytes())
        if not batch.header.is_control
        for value in values(batch)
    ]
    ours = [encode_metadata_record(record, record_version(record, 30)) for record in decide.bootstrap_records()]
    served = [value for value in theirs if decode_metadata_record(value)[0].name not in UNSERVED_FEATURES]
    assert ours == served and len(theirs) == len(served) + len(UNSERVED_FEATURES)
