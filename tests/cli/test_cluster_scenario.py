"""Commands for a cluster of three: Ottla's against Ottla and Kafka, and Kafka's own tools against both, by golden texts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests import peer
from tests.cli.cluster_story import Story, Told
from tests.cli.conftest import Run
from tests.cli.golden import steps_of
from tests.cli.ottla_nodes import running_ottla_nodes
from tests.peer.nodes import QUICK_SESSIONS, running_nodes
from tests.ports import free_port
from tests.waiting import until

SETTINGS = (*QUICK_SESSIONS, "auto.leader.rebalance.enable=false")
CHAPTERS = ("moves", "disks", "elections", "quorum", "features", "voters", "away", "back")
GRAVITY = ("ok", "warn", "fail")
Ask = Callable[[list[str]], Told]


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Story]:
    port = free_port()
    with running_nodes(tmp_path / "nodes", range(port, port + 3), overrides=SETTINGS, log_dirs=2) as cluster:
        yield Story(cluster, tmp_path / "nodes", tmp_path)


@pytest.fixture
def ottla(tmp_path: Path) -> Iterator[Story]:
    port = free_port()
    with running_ottla_nodes(tmp_path / "nodes", range(port, port + 3), overrides=SETTINGS, log_dirs=2) as cluster:
        yield Story(cluster, tmp_path / "nodes", tmp_path)


@pytest.fixture
def tools() -> Iterator[Ask]:
    with peer.one_jvm() as run:

        def ask(words: list[str]) -> Told:
            found = run(*words)
            return Told(found.returncode, found.stdout, found.stderr)

        yield ask


def ours(run: Run) -> Ask:
    def ask(words: list[str]) -> Told:
        found = run(shlex.join(words))
        assert "Traceback" not in found.err, words
        return Told(found.code, found.out, found.err)

    return ask


def tell(story: Story, run: Run, ask: Ask, *, kafkas: bool, chapters: Sequence[str] = CHAPTERS) -> None:
    """Move partitions, elect leaders, change features and voters; lose a broker, and get it back."""
    for chapter in chapters:
        if chapter == "moves":
            story.prepare(run)
        elif chapter == "voters":
            story.choose_follower(run)
        elif chapter == "away":
            story.nodes.nodes[3].kill()
        elif chapter == "back":
            story.nodes.start(3)
        story.check(steps_of(f"cluster_{chapter}.txt"), ask, kafkas=kafkas)


@pytest.mark.peer
@pytest.mark.slow
def test_commands_print_kafkas_texts_against_three_nodes_of_kafka(run: Run, kafka: Story) -> None:
    tell(kafka, run, ours(run), kafkas=False)


@pytest.mark.peer
@pytest.mark.slow
def test_the_golden_texts_are_what_kafkas_own_tools_print(run: Run, kafka: Story, tools: Ask) -> None:
    tell(kafka, run, tools, kafkas=True)


def test_commands_print_kafkas_texts_against_three_nodes_of_ottla(run: Run, ottla: Story) -> None:
    *before, back = CHAPTERS
    tell(ottla, run, ours(run), kafkas=False, chapters=before)
    assert_the_doctor_names(run, ottla, partitions="fail", brokers="warn", writes="ok", moves="ok")
    at = f"--bootstrap-server {ottla.nodes.bootstrap}"
    throttle = "leader.replication.throttled.rate"
    assert run(f"configs {at} --alter --topic e --add-config min.insync.replicas=2").code == 0
    assert run(f"configs {at} --alter --broker 1 --add-config {throttle}=1000").code == 0
    assert_the_doctor_names(run, ottla, writes="fail", moves="warn")
    assert run(f"configs {at} --alter --topic e --delete-config min.insync.replicas").code == 0
    assert run(f"configs {at} --alter --broker 1 --delete-config {throttle}").code == 0
    tell(ottla, run, ours(run), kafkas=False, chapters=[back])
    assert_the_doctor_names(run, ottla, partitions="ok", brokers="ok", quorum="ok", leaders="ok", writes="ok")
    assert_a_dead_broker_can_be_replaced(run, ottla, at)


def assert_a_dead_broker_can_be_replaced(run: Run, story: Story, at: str) -> None:
    """Move what it held, with a throttle that it cannot be told, and drop its registration (Kafka's tool fails here)."""
    plan = f"--reassignment-json-file {story.folder / 'without-3.json'}"
    story.nodes.nodes[3].kill()
    until(lambda: "fenced" in run(f"cluster list-endpoints {at} --include-fenced-brokers").out.split(), "3 is fenced")
    begun = run(f"reassign-partitions {at} --execute {plan} --throttle 1000000")
    assert (begun.code, begun.err) == (0, "Broker 3 is away, and keeps the throttle that it has.\n"), begun.out
    done = "Reassignment of partition e-0 is completed."
    until(lambda: done in run(f"reassign-partitions {at} --verify {plan}").out.splitlines(), "e is moved")
    assert run(f"cluster unregister {at} --id 3").out == "Broker 3 is no longer registered.\n"


def assert_the_doctor_names(run: Run, story: Story, **wanted: str) -> None:
    """Ask the doctor until each check's gravest finding is this; what it says nothing of is well."""
    found: dict[str, str] = {}

    def as_wanted() -> bool:
        rows = json.loads(run(f"doctor -o json --bootstrap-server {story.nodes.bootstrap}").out)
        found.clear()
        found.update(dict.fromkeys(wanted, "ok"))
        for row in rows:
            if row["check"] in wanted:
                found[row["check"]] = max(found[row["check"]], row["status"], key=GRAVITY.index)
        return found == wanted

    until(as_wanted, f"the doctor says {wanted}")


@pytest.mark.peer
@pytest.mark.slow
def test_kafkas_own_tools_print_the_same_against_three_nodes_of_ottla(run: Run, ottla: Story, tools: Ask) -> None:
    tell(ottla, run, tools, kafkas=True)
