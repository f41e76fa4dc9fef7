"""JSON and tables, pipes and signals: what Kafka's tools do not have, and what a shell expects of a program."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run
from tests.server import running_server

HEAVY = {"confluent_kafka", "numpy", "pyarrow", "pyspark", "rich", "uvloop"}


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`--bootstrap-server …` of a broker with one topic `t` of two partitions and three records."""
    with running_server(tmp_path_factory.mktemp("ottla")) as server:
        option = f"--bootstrap-server {server.bootstrap}"
        assert command(f"topics {option} --create --topic t --partitions 2").wait() == 0
        producer = command(f"console-producer {option} --topic t --reader-property parse.key=true", stdin=True)
        producer.communicate("k\tone\nk\ttwo\nk\tthree\n")
        assert producer.returncode == 0
        yield option


def command(arguments: str, *, stdin: bool = False) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", *arguments.split()],
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_topics_are_listed_and_described_as_json(run: Run, at: str) -> None:
    (listed,) = json.loads(run(f"topics {at} --list --topic t --output json").out)
    assert listed | {"topicId": ""} == {
        "topic": "t",
        "topicId": "",
        "partitionCount": 2,
        "replicationFactor": 1,
        "internal": False,
    }
    (described,) = json.loads(run(f"topics {at} --describe --topic t --output json").out)
    assert described["topicId"] == listed["topicId"]
    assert described["configs"] == {"min.insync.replicas": "1"}
    assert described["partitions"][1] == {
        "partition": 1,
        "leader": 1,
        "replicas": [1],
        "isr": [1],
        "elr": [],
        "lastKnownElr": [],
    }


def test_what_was_done_is_said_as_json(run: Run, at: str) -> None:
    assert json.loads(run(f"topics {at} --create --topic j --output json").out) == [{"topic": "j", "status": "created"}]
    altered = run(f"topics {at} --alter --topic j --partitions 3 --output json")
    assert json.loads(altered.out) == [{"topic": "j", "partitionCount": 3}]
    assert json.loads(run(f"topics {at} --delete --topic j --output json").out) == [{"topic": "j", "status": "deleted"}]


def test_an_error_never_stands_where_json_is_expected(run: Run, at: str) -> None:
    found = run(f"topics {at} --describe --topic zzz --output json")
    assert (found.code, found.out) == (1, "")
    assert found.err == "Error while executing topic command : Topic 'zzz' does not exist as expected\n"


def test_offsets_and_records_as_json(run: Run, at: str) -> None:
    offsets = json.loads(run(f"get-offsets {at} --topic t --output json").out)
    assert [each["partition"] for each in offsets] == [0, 1]
    assert sum(each["offset"] for each in offsets) == 3
    lines = run(f"console-consumer {at} --topic t --from-beginning --max-messages 3 --output json").out.splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["one", "two", "three"]
    assert {json.loads(line)["key"] for line in lines} == {"k"}


def test_log_dirs_as_json_is_one_document(run: Run, at: str) -> None:
    document = json.loads(run(f"log-dirs {at} --describe --topic-list t --output json").out)
    (folder,) = document["brokers"][0]["logDirs"]
    assert sorted(each["partition"] for each in folder["partitions"]) == ["t-0", "t-1"]
    assert sum(each["size"] for each in folder["partitions"]) > 0


def test_a_table_has_one_row_per_partition(run: Run, at: str) -> None:
    head, *rows = run(f"topics {at} --describe --topic t --output table").out.splitlines()
    assert head.split() == ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "CONFIGS"]
    assert [row.split() for row in rows] == [
        ["t", str(index), "1", "1", "1", "min.insync.replicas=1"] for index in (0, 1)
    ]


def test_a_reader_that_goes_away_ends_the_consumer_quietly(at: str) -> None:
    consumer = command(f"console-consumer {at} --topic t --from-beginning")
    assert consumer.stdout is not None and consumer.stderr is not None
    consumer.stdout.readline()
    consumer.stdout.close()
    producer = command(f"console-producer {at} --topic t", stdin=True)
    producer.communicate("wakes the consumer\n")
    assert consumer.wait(10) == 0
    assert "Traceback" not in consumer.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_consumer_with_its_count(at: str, number: signal.Signals) -> None:
    consumer = command(f"console-consumer {at} --topic t --from-beginning")
    assert consumer.stdout is not None
    consumer.stdout.readline()
    consumer.send_signal(number)
    _, err = consumer.communicate(timeout=10)
    assert consumer.returncode == 128 + number, err
    assert err.startswith("Processed a total of ") and "Traceback" not in err, err


def test_a_signal_ends_the_producer_after_what_it_read(run: Run, at: str) -> None:
    assert run(f"topics {at} --create --topic s").code == 0
    producer = command(f"console-producer {at} --topic s --sync", stdin=True)
    assert producer.stdin is not None
    producer.stdin.write("before the signal\n")
    producer.stdin.flush()
    found = run(f"console-consumer {at} --topic s --from-beginning --max-messages 1 --timeout-ms 20000")
    assert found.out == "before the signal\n"
    producer.send_signal(signal.SIGTERM)
    _, err = producer.communicate(timeout=10)
    assert producer.returncode == 128 + signal.SIGTERM, err


def test_topics_commands_import_no_heavy_library(at: str) -> None:
    code = (
        "import sys; from ottla.cli.main import main; main(sys.argv[1:]); "
        "import json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    arguments = ["topics", *at.split(), "--list"]
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert not HEAVY & set(json.loads(found.stderr))
