"""`ottla streams reset` does and prints what Kafka's StreamsResetter does, and removes the checkpoint besides."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base import Offset, TopicPartition
from ottla.cli.streams_reset import internal_topics
from ottla.client import BlockingClient
from ottla.wire import Record, build_batch
from tests import peer
from tests.cli.conftest import Run
from tests.server import running_server
from tests.spark.conftest import create_topic

TOOL = "org.apache.kafka.tools.StreamsResetter"
INTERNAL = (
    "app-counts-changelog",
    "app-counts-repartition",
    "app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000001-topic",
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingClient]:
    with running_server(tmp_path_factory.mktemp("ottla")) as server, BlockingClient(server.bootstrap) as opened:
        create_topic(opened, "in", 2)
        create_topic(opened, "through", 1)
        records = [Record(0, 1_700_000_000_000 + index * 1000, b"k", b"v", ()) for index in range(10)]
        for each in (TopicPartition("in", 0), TopicPartition("in", 1), TopicPartition("through", 0)):
            opened.produce({each: bytes(build_batch(records))})
        yield opened


@pytest.fixture
def at(client: BlockingClient) -> str:
    """An application that has run: three internal topics, and offsets in the middle."""
    present = client.metadata().topics
    for name in INTERNAL:
        if name not in present:
            create_topic(client, name, 1)
    client.commit_offsets("app", {TopicPartition("in", 0): Offset(5), TopicPartition("in", 1): Offset(7)})
    return ",".join(map(str, client.client.bootstrap))


def positions(client: BlockingClient) -> list[int]:
    found = {each: one.offset for each, one in client.committed_offsets("app").items()}
    return [found[TopicPartition("in", index)] for index in (0, 1)]


def internal(client: BlockingClient) -> set[str]:
    return {name for name in client.metadata().topics if name.startswith("app-")}


def test_a_reset_begins_anew_and_deletes_internal_topics_and_the_checkpoint(
    run: Run, at: str, client: BlockingClient, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "app" / "stage"
    checkpoint.mkdir(parents=True)
    create_topic(client, "app-other", 1)
    found = run(f"streams reset --bootstrap-server {at} --application-id app --input-topics in --state-dir {tmp_path}")
    assert found.code == 0, found
    assert positions(client) == [0, 0] and internal(client) == {"app-other"}
    assert not checkpoint.parent.exists() and f"Deleting checkpoint {tmp_path}/app" in found.out


def test_internal_topics_of_an_application_whose_id_begins_alike_are_left() -> None:
    topics = ["app-counts-changelog", "app-2-counts-changelog", "app-2-in-repartition", "app2-counts-changelog", "in"]
    assert internal_topics("app", topics, ["app", "app-2", "app-3"]) == ["app-counts-changelog"]
    assert internal_topics("app-2", topics, ["app", "app-2"]) == ["app-2-counts-changelog", "app-2-in-repartition"]


def test_a_dry_run_changes_nothing(run: Run, at: str, client: BlockingClient, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    found = run(
        f"streams-application-reset --bootstrap-server {at} --application-id app --input-topics in --to-latest "
        f"--dry-run --state-dir {tmp_path}"
    )
    assert found.code == 0 and "Topic: in Partition: 1 Offset: 10" in found.out
    assert positions(client) == [5, 7] and len(internal(client)) >= 3 and (tmp_path / "app").exists()


CASES = [
    "",
    "--input-topics in",
    "--input-topics in --intermediate-topics through",
    "--input-topics in --to-offset 3 --dry-run",
    "--input-topics in --to-offset 99",
    "--input-topics in --to-latest",
    "--input-topics in --shift-by -6",
    "--input-topics in --shift-by 2",
    "--input-topics in --to-datetime 2023-11-14T22:13:23.000",
    "--input-topics in --to-datetime 2033-11-14T22:13:23.000",
    "--input-topics in --by-duration PT1S",
    "--input-topics in --from-file {file}",
    "--input-topics in,nowhere --intermediate-topics neither",
    "--internal-topics app-counts-changelog --dry-run",
    "--internal-topics in --dry-run",
    "--input-topics in --to-offset 1 --to-latest",
    "--input-topics in --bogus",
]


@pytest.mark.peer
@pytest.mark.slow
def test_every_position_and_every_word_is_kafkas(run: Run, at: str, client: BlockingClient, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("in,0,4\nin,1,6\n")
    different: list[str] = []
    with peer.one_jvm() as kafka:
        for case in CASES:
            options = case.replace("{file}", str(plan))
            prepare(client)
            theirs = kafka(TOOL, *shlex.split(f"--bootstrap-server {at} --application-id app {options}"))
            after = positions(client), internal(client)
            prepare(client)
            ours = run(
                f"streams-application-reset --bootstrap-server {at} --application-id app {options} --state-dir {tmp_path}"
            )
            found = neutral(ours.out), ours.code, positions(client), internal(client)
            if found != (neutral(theirs.stdout), theirs.returncode, *after):
                different.append(f"{case}: {found} and {(theirs.stdout, theirs.stderr, theirs.returncode, *after)}")
    assert not different, "\n".join(different)


def neutral(text: str) -> list[str]:
    """Return the lines in order, without Java's traces, and the topics of a list in order: Java's come in none."""
    lines = []
    for line in text.splitlines():
        head, opened, inside = line.partition("[")
        names = ", ".join(sorted(inside.removesuffix("]").split(", ")))
        if not line.startswith("\tat "):
            lines.append(f"{head}[{names}]" if opened else line)
    return sorted(lines)


def prepare(client: BlockingClient) -> None:
    present = client.metadata().topics
    for name in INTERNAL:
        if name not in present:
            create_topic(client, name, 1)
    client.commit_offsets("app", {TopicPartition("in", 0): Offset(5), TopicPartition("in", 1): Offset(7)})


def test_a_group_with_a_member_is_left_alone_unless_forced(run: Run, at: str, client: BlockingClient) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": at, "group.id": "busy", "session.timeout.ms": 30000})
    try:
        consumer.subscribe(["in"])
        while not consumer.assignment():
            consumer.poll(0.1)
        found = run(f"streams reset --bootstrap-server {at} --application-id busy --input-topics in")
        assert found.code == 1 and "Consumer group 'busy' is still active and has following members" in found.err
        found = run(f"streams reset --bootstrap-server {at} --application-id busy --input-topics in --force")
        assert found.code == 0 and "Force deleting all active members in the group: busy" in found.out
    finally:
        consumer.close()
