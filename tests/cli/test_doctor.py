"""The doctor: what is well is said, and each classic mistake is named with what to do."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.cli.doctor import connect, host
from ottla.cli.doctor.cluster import _clock, _damage, _disk, _judged, _partitions, _unanswered
from ottla.cli.doctor.findings import Status, counted
from ottla.cli.doctor.host import host_checks, stray_folders
from ottla.cli.doctor.replication import leaders
from ottla.cli.local.server_process import RunningServer
from ottla.client import Cluster
from ottla.client.addresses import Address
from ottla.client.cluster import Node, Partition, Topic
from ottla.config import BrokerConfig
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.cli.conftest import Run
from tests.server import running_server


@pytest.fixture(autouse=True)
def no_contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVERS", raising=False)


@pytest.fixture
def free_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def found(run: Run, arguments: str) -> dict[str, dict[str, str]]:
    """Return the gravest finding of each check, by its name."""
    rows = json.loads(run(f"doctor -o json {arguments}").out)
    return {row["check"]: row for row in sorted(rows, key=lambda row: ["ok", "warn", "fail"].index(row["status"]))}


def test_a_sound_broker_passes_every_check(run: Run, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        outcome = run(f"doctor --bootstrap-server {server.bootstrap}")
        assert outcome.code == 0, outcome.out
        rows = found(run, f"--bootstrap-server {server.bootstrap}")
    assert {name for name, row in rows.items() if row["status"] == "fail"} == set()
    assert rows.keys() >= {"cluster", "bootstrap", "advertised", "brokers", "quorum", "clock", "replication", "disk"}
    assert all(row["remedy"] for row in rows.values() if row["status"] != "ok")


@pytest.mark.parametrize("option", ["--connect", "--registry"])
def test_a_worker_that_is_frozen_does_not_hold_the_doctor_up(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """It was waited for for two minutes, and nothing was said of anything meanwhile."""
    monkeypatch.setattr(connect, "ANSWER_SECONDS_MAX", 0.2)
    with running_server(tmp_path) as server, socket.create_server(("127.0.0.1", 0)) as frozen:
        asked = f"{option} http://127.0.0.1:{frozen.getsockname()[1]}"
        rows = found(run, f"--bootstrap-server {server.bootstrap} {asked}")
    assert "does not answer" in str([row["said"] for row in rows.values() if row["status"] == "fail"])


def test_an_advertised_name_that_nobody_knows_is_explained(run: Run, tmp_path: Path) -> None:
    advertised = "advertised.listeners=PLAINTEXT://broker-of-a-container.invalid:9092"
    with running_server(tmp_path, overrides=[advertised]) as server:
        row = found(run, f"--bootstrap-server {server.bootstrap}")["advertised"]
        assert run(f"doctor --bootstrap-server {server.bootstrap}").code == 1
    assert row["status"] == "fail"
    assert "broker-of-a-container.invalid:9092, its name does not resolve" in row["said"]
    assert "advertised.listeners" in row["remedy"]


def test_an_advertised_port_that_leads_nowhere_is_explained(run: Run, tmp_path: Path, free_port: int) -> None:
    advertised = f"advertised.listeners=PLAINTEXT://127.0.0.1:{free_port}"
    with running_server(tmp_path, overrides=[advertised]) as server:
        row = found(run, f"--bootstrap-server {server.bootstrap}")["advertised"]
    assert (row["status"], "refused" in row["said"]) == ("fail", True)


def test_two_clusters_under_one_address_are_told_apart(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with running_server(tmp_path / "a") as other:
        advertised = f"advertised.listeners=PLAINTEXT://{other.bootstrap}"
        with running_server(tmp_path / "b", overrides=[advertised]) as server:
            row = found(run, f"--bootstrap-server {server.bootstrap}")["advertised"]
    assert (row["status"], "another cluster answers" in row["said"]) == ("fail", True)


def test_nobody_there_ends_with_what_to_do(run: Run) -> None:
    outcome = run("doctor --bootstrap-server 127.0.0.1:1")
    assert outcome.code == 1
    assert "fail  bootstrap" in outcome.out and "ottla server start" in outcome.out


def test_a_worker_or_registry_that_is_away_is_told_once_with_doctors_own_options(run: Run, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        at = f"--bootstrap-server {server.bootstrap}"
        found = run(f"doctor {at} --connect 127.0.0.1:1 --registry 127.0.0.1:1")
    assert found.code == 1
    assert (
        "connect      http://127.0.0.1:1 does not answer: " in found.out and "name another with --connect" in found.out
    )
    assert (
        "registry     http://127.0.0.1:1 does not answer: " in found.out and "name another with --registry" in found.out
    )
    assert "--url" not in found.out


def test_one_of_a_thing_is_told_in_the_singular(run: Run, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        said = run(f"doctor --bootstrap-server {server.bootstrap}").out
    assert "leader 1, 1 voter, high" in said and "on 1 broker (" in said
    assert (counted(1, "copy", "copies"), counted(2, "copy", "copies")) == ("1 copy", "2 copies")


def test_what_does_not_speak_the_protocol_is_said_to(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        impatient = f"--bootstrap-server 127.0.0.1:{listener.getsockname()[1]}"
        listener.close()
        assert found(run, impatient)["bootstrap"]["status"] == "fail"


def cluster(*, leader: int, in_sync: tuple[int, ...]) -> Cluster:
    partition = Partition(0, leader, 0, (1, 2), in_sync)  # type: ignore[arg-type]
    node = Node(1, Address("a", 1))  # type: ignore[arg-type]
    return Cluster({1: node}, {"t": Topic("t", b"", {0: partition})})  # type: ignore[arg-type, dict-item]


@pytest.mark.parametrize(
    ("view", "status"),
    [
        (cluster(leader=1, in_sync=(1, 2)), Status.OK),
        (cluster(leader=1, in_sync=(1,)), Status.WARN),
        (cluster(leader=-1, in_sync=(1,)), Status.FAIL),
    ],
)
def test_partitions_are_judged_by_leader_and_copies(view: Cluster, status: Status) -> None:
    (finding,) = _partitions(view)
    assert (finding.status, bool(finding.remedy)) == (status, status is not Status.OK)


@pytest.mark.parametrize(("theirs", "status"), [(100_010, Status.OK), (94_000, Status.WARN), (107_000, Status.WARN)])
def test_a_clock_that_is_seconds_off_is_named(theirs: int, status: Status) -> None:
    assert _clock(theirs, 100_000, 100_020).status is status


@pytest.mark.parametrize(("usable", "status"), [(50, Status.OK), (5, Status.WARN), (1, Status.FAIL)])
def test_a_disk_that_fills_up_is_named(usable: int, status: Status) -> None:
    assert _disk("b", DescribeLogDirsResult(total_bytes=100, usable_bytes=usable)).status is status


def test_partitions_whose_files_are_damaged_are_named_and_copies_on_their_way_are_not() -> None:
    def topic(name: str, lag: int, *, future: bool = False) -> DescribeLogDirsTopic:
        partition = DescribeLogDirsPartition(partition_index=0, offset_lag=lag, is_future_key=future)
        return DescribeLogDirsTopic(name=name, partitions=[partition])

    sound = [topic("sound", 0), topic("behind", 7), topic("moving", -1, future=True)]
    assert not _damage("broker 1, /a", DescribeLogDirsResult(topics=sound))
    many = [topic(f"bad{at:02d}", -1) for at in range(12)]
    (finding,) = _damage("broker 1, /a", DescribeLogDirsResult(topics=[*sound, *many]))
    assert finding.status is Status.FAIL and finding.remedy
    assert "/a" in finding.said and "bad00-0" in finding.said and "2 more" in finding.said
    assert "sound" not in finding.said and "moving" not in finding.said


def test_folders_that_were_set_aside_for_good_are_named(tmp_path: Path) -> None:
    for name in ("t-0", "t-1.0123456789abcdef-stray", "t-2.0123456789abcdef-delete"):
        (tmp_path / "a" / name).mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (finding,) = stray_folders([str(tmp_path / each) for each in ("a", "b", "gone")])
    assert finding.status is Status.WARN and finding.remedy
    assert "t-1.0123456789abcdef-stray" in finding.said and "delete" not in finding.said


@pytest.mark.parametrize(("shards", "at"), [(None, "data"), (1, "data/shard.7"), (2, "data/shard.8")])
def test_strays_are_looked_for_in_the_servers_own_folder_and_in_those_of_its_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int | None, at: str
) -> None:
    """The doctor runs anywhere; a relative folder is that of whoever started the server."""
    (tmp_path / at / "t-1.0123456789abcdef-stray").mkdir(parents=True)
    config = BrokerConfig.load("node.id=7\nlog.dirs=data\nlisteners=PLAINTEXT://127.0.0.1:9500")
    server = RunningServer(-1, config, shards, tmp_path)
    monkeypatch.setattr(host, "running_servers", lambda: [server])
    found = [each.said for each in host_checks(f"127.0.0.1:{9500 + (shards or 1) - 1}") if each.check == "strays"]
    assert found == [f"{tmp_path / at}: t-1.0123456789abcdef-stray"]


@pytest.mark.parametrize(
    ("silent", "voters", "status"),
    [([], 3, Status.OK), ([3], 3, Status.WARN), ([2, 3], 3, Status.FAIL), ([2], 2, Status.FAIL)],
)
def test_a_quorum_is_judged_by_how_many_of_its_voters_are_heard(silent: list[int], voters: int, status: Status) -> None:
    assert _judged("", silent, voters).status is status


@pytest.mark.parametrize(
    ("check", "code", "status"),
    [
        ("quorum", ErrorCode.REQUEST_TIMED_OUT, Status.FAIL),
        ("quorum", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, Status.WARN),
        ("disk", ErrorCode.REQUEST_TIMED_OUT, Status.WARN),
    ],
)
def test_a_quorum_that_does_not_answer_is_lost_and_other_checks_are_only_not_made(
    check: str, code: ErrorCode, status: Status
) -> None:
    assert _unanswered(check, KafkaError(code)).status is status


def test_leaders_that_stayed_away_from_their_first_copies_are_named() -> None:
    def led_by(*broker_ids: int) -> Cluster:
        partitions = {
            index: Partition(index, leader, 0, (1, 2), (1, 2))  # type: ignore[arg-type]
            for index, leader in enumerate(broker_ids)
        }
        nodes = {node: Node(node, Address("a", node)) for node in (1, 2)}  # type: ignore[arg-type]
        return Cluster(nodes, {"t": Topic("t", b"", partitions)})  # type: ignore[arg-type]

    (finding,) = leaders(led_by(1, 1, 2))
    assert (finding.status, finding.said) == (
        Status.WARN,
        "1 of 3 partitions are not led by their first copy: broker 1 leads 2, broker 2 leads 1",
    )
    assert [each.status for each in leaders(led_by(1, 1, 1))] == [Status.OK]
    assert leaders(cluster(leader=-1, in_sync=(1,))) == []
