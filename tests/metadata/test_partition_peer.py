"""Random changes of partitions, decided by this code and by Kafka's own: the same record, field by field."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from immutables import Map

from ottla.base import LeaderEpoch, NodeId, Uuid
from ottla.metadata import Image, Partition, Topic, apply
from ottla.metadata.decide.partition_change import Election, Wanted, change_partition
from ottla.wire.messages.config_record import ConfigRecord
from ottla.wire.messages.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.partition_change_record import PartitionChangeRecord
from tests import peer
from tests.metadata.clusters import cluster

BROKERS = (1, 2, 3, 4, 5)
CASES = 3000
HARNESS = Path(peer.__file__).with_name("PartitionChanges.java")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
TOPIC_ID = Uuid(bytes(15) + b"\x09")


def directory(broker: int) -> Uuid:
    return Uuid((7).to_bytes(8, "big") + broker.to_bytes(8, "big"))


@dataclass
class Case:
    """A partition, what is wanted of it, and who can lead."""

    partition: Partition
    wanted: Wanted
    elr: bool
    min_isr: int
    level: int
    able: tuple[int, ...]

    def line(self) -> str:
        """Return the case as Kafka's side of the comparison reads it."""
        old, new = self.partition, self.wanted
        return ";".join(
            (
                _text(old.replicas),
                _text(old.isr),
                _text(old.removing_replicas),
                _text(old.adding_replicas),
                _text(old.eligible_leader_replicas),
                _text(old.last_known_elr),
                str(old.leader),
                str(old.leader_recovery_state),
                *("-" if each is None else _text(each) for each in (new.isr, new.replicas, new.removing, new.adding)),
                new.election.name,
                "elr" if self.elr else "",
                str(self.min_isr),
                str(self.level),
                _text(self.able),
                _text(new.lost),
                "-" if new.recovery is None else str(new.recovery),
            )
        )

    def decided(self) -> str:
        """Return this code's record in the same words."""
        image = _image(self)
        record = change_partition(image, image.topics["t"], 0, self.wanted, able=lambda broker: broker in self.able)
        return "none" if record is None else _said(record)


def _text(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


def _said(record: PartitionChangeRecord) -> str:
    def text(values: Iterable[int] | None) -> str:
        return "-" if values is None else _text(values)

    dirs = None if record.directories is None else [int.from_bytes(each[8:], "big") for each in record.directories]
    return ";".join(
        (
            text(record.isr),
            str(record.leader),
            text(record.replicas),
            text(record.removing_replicas),
            text(record.adding_replicas),
            str(record.leader_recovery_state),
            text(dirs),
            text(record.eligible_leader_replicas),
            text(record.last_known_elr),
        )
    )


_CLUSTER = cluster(*BROKERS)


def _image(case: Case) -> Image:
    from dataclasses import replace

    image = apply(_CLUSTER, FeatureLevelRecord(name="metadata.version", feature_level=case.level))
    elr = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1 if case.elr else 0)
    image = apply(image, elr)
    value = str(case.min_isr)
    image = apply(image, ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value=value))
    brokers = {each: replace(broker, log_dirs=(directory(each),)) for each, broker in image.brokers.items()}
    topic = Topic("t", TOPIC_ID, Map({0: case.partition}))
    return replace(image, brokers=Map(brokers), topics=Map({"t": topic}), topic_names=Map({TOPIC_ID: "t"}))


def random_case(rng: Random) -> Case:
    """Return a partition as it can come about, and a change as the decisions ask for it."""
    replicas = rng.sample(BROKERS, rng.randint(1, 4))
    elr = rng.random() < 0.7
    min_isr = min(rng.randint(1, 3), len(replicas))
    able = tuple(each for each in BROKERS if rng.random() < 0.7)
    removing: list[int] = []
    adding: list[int] = []
    if len(replicas) > 1 and rng.random() < 0.4:
        split = rng.sample(replicas, rng.randint(1, len(replicas) - 1))
        removing = sorted(each for each in split if rng.random() < 0.5)
        adding = sorted(each for each in split if each not in removing)
    isr = sorted(rng.sample(replicas, rng.randint(0 if elr else 1, len(replicas))))
    eligible: list[int] = []
    if elr and len(isr) < min_isr:
        eligible = sorted(each for each in replicas if each not in isr and rng.random() < 0.4)
    leads = isr and rng.random() < 0.8
    leader = rng.choice(isr) if leads else -1
    last_known = [] if leads or not elr else rng.sample(replicas, 1)
    partition = Partition(
        replicas=_ids(replicas),
        isr=_ids(isr),
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(3),
        partition_epoch=5,
        directories=tuple(map(directory, replicas)),
        removing_replicas=_ids(removing),
        adding_replicas=_ids(adding),
        leader_recovery_state=int(rng.random() < 0.2),
        eligible_leader_replicas=_ids(eligible),
        last_known_elr=_ids(last_known),
    )
    wanted = _wanted(rng, partition)
    gone = () if wanted.isr is None or wanted.recovery is not None else set(isr) - set(wanted.isr)
    able = tuple(each for each in able if each not in gone)  # who has been fenced cannot lead
    return Case(partition, wanted, elr, min_isr, 30 if elr else rng.choice((7, 11, 15, 30)), able)


def _wanted(rng: Random, old: Partition) -> Wanted:
    election = rng.choice((Election.ONLINE, Election.UNCLEAN))
    kind = rng.choice(("alter", "fence", "crash", "elect", "reassign", "nothing"))
    if kind == "alter" and old.leader >= 0:
        others = [each for each in old.replicas if each != old.leader]
        isr = sorted((old.leader, *rng.sample(others, rng.randint(0, len(others)))))
        return Wanted(isr=_ids(isr), recovery=0, election=election)
    if kind in ("fence", "crash") and old.isr:
        gone = rng.choice(old.isr)
        left = tuple(each for each in old.isr if each != gone)
        return Wanted(isr=left, election=election, lost=(gone,) if kind == "crash" else ())
    if kind == "elect":
        return Wanted(election=rng.choice((Election.PREFERRED, Election.UNCLEAN)))
    if kind == "reassign":
        target = rng.sample(BROKERS, rng.randint(1, 3))
        removing = sorted(set(old.replicas) - set(target))
        adding = sorted(set(target) - set(old.replicas))
        return Wanted(replicas=_ids([*target, *removing]), removing=_ids(removing) or None, adding=_ids(adding) or None)
    return Wanted(election=election)


def _ids(values: Iterable[int]) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, values))


def differs_on_purpose(case: Case) -> bool:
    """True where Kafka's rule keeps, or elects, who is no replica any more, or elects who cannot lead."""
    old, new = case.partition, case.wanted
    replicas = new.replicas or old.replicas
    removing = new.removing or old.removing_replicas
    known = {*old.isr, *old.eligible_leader_replicas, *old.last_known_elr, old.leader} - {-1}
    stays = set(replicas) - set(removing)
    last = old.last_known_elr
    return case.elr and (not known <= stays or any(each not in case.able for each in last))


@pytest.mark.parametrize("seed", [1])
def test_kafka_decides_the_same(seed: int) -> None:
    if (reason := peer.missing()) is not None:
        pytest.skip(reason)
    rng = Random(seed)
    cases = [random_case(rng) for _ in range(CASES)]
    said = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", QUIET, *peer.program(HARNESS)],
        input="\n".join(case.line() for case in cases) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout.split()
    assert len(said) == CASES
    found = [
        (case, theirs, ours)
        for case, theirs in zip(cases, said, strict=True)
        if theirs != (ours := case.decided()) and not differs_on_purpose(case)
    ]
    told = "\n".join(f"{case.line()}\n  Kafka: {theirs}\n  here:  {ours}" for case, theirs, ours in found[:8])
    assert not found, f"{len(found)} of {CASES} differ, such as\n{told}"
    assert sum(each != "none" for each in said) > CASES / 2
    assert sum(differs_on_purpose(case) for case in cases) < CASES / 2
