"""MirrorMaker beside Kafka's own: each goes on where the other has stopped, and a cluster of Kafka's moves to Ottla."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ottla.base import Offset, TopicPartition
from ottla.client import BlockingClient, Coordinated
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from tests import peer
from tests.mirror.test_mirroring import make, values, write
from tests.ports import free_port
from tests.security.authority import PASSWORD, authority, keytool, signed
from tests.server import running_server
from tests.waiting import until

pytestmark = pytest.mark.peer
COMMON = """
clusters = A, B
A->B.enabled = true
B->A.enabled = false
emit.heartbeats.enabled = false
A->B.emit.heartbeats.enabled = true
topics = orders
tasks.max = 2
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
B.offset.flush.interval.ms = 500
B.heartbeat.interval.ms = 500
B.session.timeout.ms = 6000
"""


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[None]:
    """Run a MirrorMaker until the block ends; it is asked to end, and does."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(100)
            finally:
                process.kill()  # nothing where it has ended


def commands(path: Path) -> tuple[list[str], list[str]]:
    """Return how Kafka's and ours are started."""
    kafkas = peer.java(*peer.QUICK_START, "org.apache.kafka.connect.mirror.MirrorMaker", str(path))
    return kafkas, [sys.executable, "-m", "ottla.cli.main", "connect-mirror-maker", str(path)]


@pytest.fixture(autouse=True)
def _jars() -> None:
    if reason := peer.missing():
        pytest.skip(reason)


def test_each_goes_on_where_the_other_has_stopped_and_no_record_comes_twice(tmp_path: Path) -> None:
    folders = [tmp_path / each for each in "AB"]
    for each in folders:
        each.mkdir()
    with running_server(folders[0]) as a, running_server(folders[1]) as b:
        path = tmp_path / "mm2.properties"
        path.write_text(f"{COMMON}\nA.bootstrap.servers={a.bootstrap}\nB.bootstrap.servers={b.bootstrap}\n")
        kafkas, ours = commands(path)
        with BlockingClient(a.bootstrap) as east, BlockingClient(b.bootstrap) as west:
            make(east, "orders", 2)
            place, remote = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
            expected: Counter[str] = Counter()
            for turn, command in enumerate((kafkas, ours, kafkas)):
                new = [f"{turn}-{number}" for number in range(300)]
                write(east, "orders", *new)
                expected.update(new)
                east.commit_offsets("readers", {place: Offset(len(expected))})
                with running(command, tmp_path):
                    until(lambda: values(west, "A.orders") == expected, lambda: len(values(west, "A.orders")))

                    def synced(least: int = len(expected) - 100) -> bool:
                        found = west.committed_offsets("readers").get(remote)
                        return found is not None and least <= found.offset <= len(expected)

                    until(synced, lambda: (west.committed_offsets("readers"), len(expected)))
            assert set(values(west, "A.orders").values()) == {1}


def test_a_cluster_of_kafkas_moves_to_ottla_with_its_groups(tmp_path: Path) -> None:
    ottlas = tmp_path / "ottla"
    ottlas.mkdir()
    port = free_port()
    kafka = f"127.0.0.1:{port}"
    with peer.running_broker(tmp_path / "kafka", port), running_server(ottlas) as ottla:
        path = tmp_path / "mm2.properties"
        policy = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
        path.write_text(f"{COMMON}\n{policy}\nA.bootstrap.servers={kafka}\nB.bootstrap.servers={ottla.bootstrap}\n")
        with BlockingClient(kafka) as old, BlockingClient(ottla.bootstrap) as new:
            make(old, "orders", 1, retention_ms="999999999")
            given = [str(number) for number in range(500)]
            write(old, "orders", *given)
            place = TopicPartition("orders", 0)
            old.commit_offsets("readers", {place: Offset(500)})
            with running(commands(path)[1], tmp_path):
                until(lambda: values(new, "orders") == Counter(given), lambda: len(values(new, "orders")))

                def synced() -> bool:
                    found = new.committed_offsets("readers").get(place)
                    return found is not None and found.offset == 500

                until(synced, lambda: new.committed_offsets("readers"))


@pytest.mark.slow  # two of Kafka's nodes start, one after another
@pytest.mark.parametrize(
    ("first", "scheme"), [("kafkas", "http"), ("ours", "http"), ("kafkas", "https"), ("ours", "https")]
)
def test_a_node_of_kafkas_and_one_of_ours_share_a_flow(tmp_path: Path, first: str, scheme: str) -> None:
    """Whichever leads is told by the other, at its path of the flow, about partitions that have come (KIP-710)."""
    folders = [tmp_path / each for each in ("A", "B", "kafkas", "ours")]
    for each in folders:
        each.mkdir()
    with running_server(folders[0]) as a, running_server(folders[1]) as b:
        nodes: dict[str, list[str]] = {}
        common = COMMON.replace("topics = orders", "topics = first.*,later.*").replace("tasks.max = 2", "tasks.max = 4")
        keys = of_https(tmp_path) if scheme == "https" else {}
        common += "".join(f"{key} = {value}\n" for key, value in keys.items())
        for number, folder in enumerate(folders[2:]):
            path = folder / "mm2.properties"
            path.write_text(
                f"{common}\n"
                "A->B.emit.heartbeats.enabled = true\ndedicated.mode.enable.internal.rest = true\n"
                f"A.bootstrap.servers={a.bootstrap}\nB.bootstrap.servers={b.bootstrap}\n"
                f"listeners = {scheme}://127.0.0.1:{free_port()}\nB.scheduled.rebalance.max.delay.ms = 500\n"
            )
            nodes[folder.name] = commands(path)[number]
        second = "ours" if first == "kafkas" else "kafkas"
        with BlockingClient(a.bootstrap) as east, BlockingClient(b.bootstrap) as west:
            for number in range(4):
                make(east, f"first-{number}", 1)
                write(east, f"first-{number}", "1")

            def copied(*kinds: str) -> bool:
                names = [f"A.{kind}-{number}" for kind in kinds for number in range(4)]
                return all(values(west, each) == Counter("1") for each in names)

            with running(nodes[first], tmp_path / first):
                until(lambda: copied("first"), lambda: sorted(west.metadata().topics))
                with running(nodes[second], tmp_path / second):
                    until(lambda: members(west) == 2, lambda: members(west))
                    for kind in ("later", "later2"):
                        for number in range(4):
                            make(east, f"{kind}-{number}", 1)
                            write(east, f"{kind}-{number}", "1")
                        until(partial(copied, kind), lambda: sorted(west.metadata().topics))
                assert copied("first", "later", "later2")


def of_https(folder: Path) -> dict[str, str]:
    """Return keys of both nodes' interfaces, who ask each other for certificates; Kafka's workers read no PEM there."""
    trusted = authority()
    (folder / "node.p12").write_bytes(signed(trusted, "node").p12())
    (folder / "ca.pem").write_text(trusted.chain_pem())
    store = ("-keystore", folder / "trusted.jks", "-storetype", "JKS", "-storepass", PASSWORD)
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", folder / "ca.pem", *store)
    own = {
        "keystore.type": "PKCS12",
        "keystore.location": str(folder / "node.p12"),
        "keystore.password": PASSWORD,
        "key.password": PASSWORD,
        "truststore.type": "JKS",
        "truststore.location": str(folder / "trusted.jks"),
        "truststore.password": PASSWORD,
        "client.auth": "required",
    }
    return {f"listeners.https.ssl.{key}": value for key, value in own.items()}


def members(client: BlockingClient) -> int:
    """Return how many nodes share the flow."""
    response = client.request(DescribeGroupsRequest(groups=["A-mm2"]), coordinator_of=Coordinated("A-mm2"))
    return len(response.groups[0].members)
