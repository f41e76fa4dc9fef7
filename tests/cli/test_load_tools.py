"""Performance and verifiable tools: the lines that scripts and Kafka's system tests read, beside those of Kafka's own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from ottla.cli.client_properties import BETWEEN_PAIRS
from ottla.cli.main import NOUNS
from ottla.cli.options import UsageError
from ottla.cli.records.java_dates import format_java_date
from ottla.cli.records.throughput import Latencies
from tests import peer
from tests.cli.conftest import Run
from tests.ports import free_port
from tests.server import running_server

NUMBER = r"\d+\.\d+"
SENT = (
    rf"N records sent, {NUMBER} records/sec \({NUMBER} MB/sec\), {NUMBER} ms avg latency, {NUMBER} ms max latency, "
    r"\d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.\n"
)
HEAD = (
    r"start\.time, end\.time, data\.consumed\.in\.MB, MB\.sec, data\.consumed\.in\.nMsg, nMsg\.sec, "
    r"rebalance\.time\.ms, fetch\.time\.ms, fetch\.MB\.sec, fetch\.nMsg\.sec\n"
)
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
READ = rf"{TIME}, {TIME}, \d+\.\d{{4}}, \d+\.\d{{4}}, 23, \d+\.\d{{4}}, \d+, \d+, -?\d+\.\d{{4}}, -?\d+\.\d{{4}}\n"
E2E = r"0\t\d+\.\d+\nAvg latency: \d+\.\d{4} ms\nPercentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+\n"
EVENT = r'\{"timestamp":\d{13},"name":"'
STARTED = rf'{EVENT}startup_complete"\}}\n'
STOPPED = rf'{EVENT}shutdown_complete"\}}\n'

WITHOUT_GROUPS = [
    ("producer-perf", "--topic t --num-records 10 --record-size 10 --throughput -1", SENT.replace("N", "10", 1)),
    (
        "producer-perf",
        "--topic t --num-records 10 --payload-monotonic --throughput 1000 --command-property acks=1 linger.ms=1 "
        "--warmup-records 4",
        r"Warmup first 4 records\. Steady state results will print after the complete test summary\.\n"
        r"(?:In steady state\.\n)?"
        + SENT.replace("N", "10", 1)
        + SENT.replace("N records", "6 steady state records", 1),
    ),
    ("e2e", "--topic t --num-records 3 --producer-acks all --record-size 5", E2E),
    (
        "verifiable-producer",
        "--topic v --max-messages 2 --value-prefix 7 --repeating-keys 1",
        STARTED
        + "".join(
            rf'{EVENT}producer_send_success","key":"0","value":"7\.{n}","offset":{n},"topic":"v","partition":0\}}\n'
            for n in (0, 1)
        )
        + STOPPED
        + rf'{EVENT}tool_data","sent":2,"acked":2,"target_throughput":-1,"avg_throughput":[\d.E-]+\}}\n',
    ),
]
PLACE = r'"topic":"v","partition":0'
WITH_GROUPS = [
    ("consumer-perf", "--topic t --num-records 23", HEAD + READ),
    (
        "verifiable-consumer",
        "--topic v --group-id g --max-messages 2 --verbose",
        STARTED
        + rf'{EVENT}partitions_assigned","partitions":\[\{{{PLACE}\}}\]\}}\n'
        + "".join(rf'{EVENT}record_data","key":"0","value":"7\.{n}",{PLACE},"offset":{n}\}}\n' for n in (0, 1))
        + rf'{EVENT}records_consumed","count":2,"partitions":\[\{{{PLACE},"count":2,"minOffset":0,"maxOffset":1\}}\]\}}\n'
        + rf'{EVENT}offsets_committed","offsets":\[\{{{PLACE},"offset":2\}}\],"success":true\}}\n'
        + rf'{EVENT}partitions_revoked","partitions":\[\{{{PLACE}\}}\]\}}\n'
        + STOPPED
        + rf'{EVENT}shutdown_requested"\}}\n',
    ),
]
NOUN_OF = {"producer-perf": "producer-perf-test", "consumer-perf": "consumer-perf-test", "e2e": "e2e-latency"}


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("ottla")) as server:
        yield server.bootstrap


def check(steps: list[tuple[str, str, str]], bootstrap: str, printed: Callable[[str, list[str]], str]) -> None:
    for tool, args, expected in steps:
        out = printed(tool, ["--bootstrap-server", bootstrap, *args.split()])
        assert re.fullmatch(expected, out), (tool, args, out)


def with_ottla(run: Run) -> Callable[[str, list[str]], str]:
    def printed(tool: str, args: list[str]) -> str:
        found = run(" ".join([NOUN_OF.get(tool, tool), *args]))
        assert found.code == 0, found.err
        return found.out

    return printed


def with_kafka(tool: str, args: list[str]) -> str:
    return peer.tool(tool, *args).stdout


def test_lines_are_kafkas(run: Run, at: str) -> None:
    check([*WITHOUT_GROUPS, *WITH_GROUPS], at, with_ottla(run))


@pytest.mark.peer
@pytest.mark.slow
def test_lines_are_kafkas_against_kafka_and_kafkas_tools_print_them_too(run: Run, tmp_path: Path) -> None:
    steps = [*WITHOUT_GROUPS, *WITH_GROUPS]
    others = [(tool, renamed(args), renamed(expected)) for tool, args, expected in steps]
    port = free_port()
    with peer.running_broker(tmp_path, port):
        check(steps, f"127.0.0.1:{port}", with_ottla(run))
        # the verifiable tools' last events come when their JVM ends
        alone = [step for step in others if step[0].startswith("verifiable")]
        with peer.one_jvm() as tool:
            together = [step for step in others if step not in alone]
            check(together, f"127.0.0.1:{port}", lambda name, args: tool(name, *args).stdout)
        check(alone, f"127.0.0.1:{port}", lambda name, args: in_one_order(with_kafka(name, args)))


def in_one_order(text: str) -> str:
    """Put each event's topic before its partition: Kafka's order is that of a JVM's reflection, which no version fixes."""
    return re.sub(r'"partition":(\d+),("topic":"[^"]*")', r'\2,"partition":\1', text)


def renamed(text: str) -> str:
    """Put other topics and another group in the place of those that have been used."""
    return re.sub(r'(--topic |--group-id |"topic":")', r"\1k", text)


def test_a_refused_record_is_an_event_with_kafkas_exception(run: Run, at: str) -> None:
    found = run(f"verifiable-producer --bootstrap-server {at} --topic bad%topic --max-messages 1")
    events = [json.loads(line) for line in found.out.splitlines()]
    assert found.code == 0
    assert [each["name"] for each in events] == [
        *("startup_complete", "producer_send_error", "shutdown_complete", "tool_data")
    ]
    assert events[1]["exception"] == "class org.apache.kafka.common.errors.InvalidTopicException"
    assert events[-1]["acked"] == 0


def test_a_signal_ends_the_producer_with_its_figures(at: str) -> None:
    arguments = f"verifiable-producer --bootstrap-server {at} --topic s --throughput 100".split()
    command = [sys.executable, "-m", "ottla.cli.main", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=20)
    last = json.loads(rest.splitlines()[-1])
    assert '"startup_complete"' in lines[0] and process.returncode == 0
    assert last["name"] == "tool_data" and last["sent"] == last["acked"] >= 2


@pytest.mark.parametrize(("limit", "size"), [(128_000, 1_000), (600, 300)])
def test_batches_are_no_larger_than_the_topic_takes(run: Run, at: str, limit: int, size: int) -> None:
    topic = f"small-{limit}"
    assert run(f"topics create {topic} --bootstrap-server {at} --config max.message.bytes={limit}").code == 0
    sent = f"--topic {topic} --num-records 5000 --throughput -1 --record-size {size}"
    found = run(f"producer-perf-test {sent} --bootstrap-server {at}")
    assert (found.code, found.err) == (0, ""), found
    assert run(f"get-offsets --bootstrap-server {at} --topic {topic}").out == f"{topic}:0:5000\n"
    verified = run(f"verifiable-producer --bootstrap-server {at} --topic {topic} --max-messages 500")
    assert '"acked":500' in verified.out.splitlines()[-1], verified


def test_values_come_from_a_file(run: Run, at: str, tmp_path: Path) -> None:
    (tmp_path / "values").write_text("one|two|")
    found = run(
        f"producer-perf-test --bootstrap-server {at} --topic f --num-records 4 --throughput -1 --payload-delimiter '|' "
        f"--payload-file {tmp_path / 'values'} --producer-props bootstrap.servers=other:1,acks=1"
    )
    assert found.code == 0, found.err
    assert "Number of records read: 2\n4 records sent" in found.out
    read = run(f"console-consumer --bootstrap-server {at} --topic f --from-beginning --max-messages 4")
    assert set(read.out.split()) <= {"one", "two"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("producer-perf-test --topic t --num-records 0 --record-size 1 --throughput -1", "--num-records should be"),
        ("producer-perf-test --topic t --num-records 1 --record-size 0 --throughput -1", "--record-size should be"),
        ("producer-perf-test --topic t --num-records 1 --throughput -1", "one of the arguments"),
        (
            "producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --command-property x",
            "key=value",
        ),
        (
            "producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --warmup-records 1",
            "must be strictly fewer",
        ),
        (
            "consumer-perf-test --topic t",
            "Exactly one of the following arguments is required: [messages], [num-records]",
        ),
        (
            "consumer-perf-test --num-records 1",
            "Exactly one of the following arguments is required: [topic], [include]",
        ),
        ("consumer-perf-test --topic t --num-records 1 --date-format b", "Illegal pattern character 'b'"),
        ("e2e-latency b t 1 all", "Expected 5 or 6 positional arguments, but got 4"),
        ("e2e-latency --topic t --num-records 1 --producer-acks 0 --record-size 1", "Please use '1' or 'all'."),
        ("e2e-latency --topic t", 'Missing required argument "[num-records]"'),
        ("verifiable-consumer --topic t --group-id g --group-protocol share", "--group-protocol"),
        (
            "verifiable-consumer --topic t --group-id g --group-protocol consumer --session-timeout 1",
            "--session-timeout goes with --group-protocol classic",
        ),
    ],
)
def test_a_wrong_option_is_named(run: Run, arguments: str, said: str) -> None:
    found = run(arguments)
    assert (found.code, found.out) == (1, "") or found.out.startswith("WARNING")
    assert said in found.err and "Traceback" not in found.err


@pytest.mark.parametrize(
    "arguments",
    [
        "producer-perf-test --topic t --num-records 1 --record-size 1 --throughput -1 --command-property max.block.ms=100",
        "consumer-perf-test --topic t --num-records 1 --timeout 100",
        "verifiable-producer --topic t --max-messages 1 --command-property max.block.ms=100",
        "verifiable-consumer --topic t --group-id g --command-property default.api.timeout.ms=100",
    ],
)
def test_an_unreachable_broker_is_one_line(run: Run, arguments: str) -> None:
    found = run(f"{arguments} --bootstrap-server 127.0.0.1:1")
    assert found.code == 1 and "127.0.0.1:1 refused the connection" in found.err and found.err.count("\n") == 1


def test_the_latest_are_found_and_windows_begin_anew() -> None:
    latencies = Latencies(1000)
    for number in range(1000):
        latencies.record(float(number), 1)
    assert [latencies.percentile_ms(share) for share in (0.5, 0.95, 0.99, 0.999)] == [500, 950, 990, 999]
    assert latencies.window_line().startswith("1000 records sent, ")
    assert latencies.window_line().startswith("0 records sent, 0.0 records/sec")
    assert Latencies(5).percentile_ms(0.5) == 0


def test_times_are_written_as_java_writes_them() -> None:
    at = datetime(2026, 3, 4, 15, 6, 7, 89_000)
    pattern = "yyyy-MM-dd HH:mm:ss:SSS | yy M d h:m a 'o''clock' EEE MMM k K D u"
    assert format_java_date(at, pattern) == "2026-03-04 15:06:07:089 | 26 3 4 3:6 PM o'clock Wed Mar 15 3 63 3"
    with pytest.raises(UsageError, match="Illegal pattern character 'b'"):
        format_java_date(at, "b")


def test_pairs_may_stand_with_commas_between() -> None:
    assert BETWEEN_PAIRS.split("bootstrap.servers=a:1,b:2,acks=all") == ["bootstrap.servers=a:1,b:2", "acks=all"]


def test_every_tool_is_a_noun() -> None:
    assert {NOUN_OF.get(tool, tool) for tool, *_ in [*WITHOUT_GROUPS, *WITH_GROUPS]} <= set(NOUNS)
