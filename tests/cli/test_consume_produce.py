"""`ottla consume` and `ottla produce`: from anywhere to anywhere, and records that go round unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run
from tests.server import running_server


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("ottla")
    with running_server(folder, overrides=["group.initial.rebalance.delay.ms=0"]) as server:
        yield server.bootstrap


@pytest.fixture(autouse=True)
def environment(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", bootstrap)


@pytest.fixture(scope="module")
def numbers(bootstrap: str) -> str:
    """A topic of one partition with the records 0 to 9, one second apart, from 2026-01-01T00:00 on."""
    text = "".join(f'{{"key":"k","value":"{n}","timestamp":{1_767_225_600_000 + n * 1000}}}\n' for n in range(10))
    command = [sys.executable, "-m", "ottla.cli.main", "produce", "--bootstrap-server", bootstrap, "numbers"]
    subprocess.run([*command, "-o", "jsonl"], input=text, text=True, check=True)
    return "numbers"


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ("-e", "0123456789"),
        ("-n 3", "012"),
        ("--from 8 -e", "89"),
        ("--from +7 -e", "789"),
        ("--from -2 -e", "89"),
        ("--tail 2", "89"),
        ("--tail 100", "0123456789"),
        ("--from @2026-01-01T00:00:07 -e", "789"),
        ("--from @2026-01-01T00:00:02 --until @2026-01-01T00:00:05", "234"),
        ("--until 3", "012"),
        ("--from -1h -e", ""),
        ("--from @1767225608000 -e", "89"),
        ("-p 0 -e", "0123456789"),
        ("-r --until 2", "01"),
    ],
)
def test_from_anywhere_to_anywhere(run: Run, numbers: str, options: str, printed: str) -> None:
    found = run(f"consume {numbers} {options}")
    assert (found.code, found.out.replace("\n", "")) == (0, printed)


def test_console_consumer_and_get_offsets_take_the_same_words(run: Run, numbers: str) -> None:
    assert run(f"console-consumer --topic {numbers} --offset -2 --max-messages 2").out == "8\n9\n"
    assert run(f"console-consumer --topic {numbers} --offset @2026-01-01T00:00:09 --max-messages 1").out == "9\n"
    assert run(f"console-consumer --topic {numbers} --offset -1 --max-messages 1 -f '%o %k %v;'").out == "9 k 9;"
    assert run(f"get-offsets --topic {numbers} --time @2026-01-01T00:00:04").out == "numbers:0:4\n"
    assert run(f"get-offsets --topic {numbers} --time -1h").out == ""


def test_records_go_round_unchanged(run: Run, bootstrap: str) -> None:
    original = [
        {"key": None, "value": "ünï\n\t", "headers": [], "timestamp": 1},
        {"key": {"base64": "/wA="}, "value": None, "headers": [["a", {"base64": "gIA="}], ["a", None]], "timestamp": 2},
        {"key": "", "value": {"base64": "/w=="}, "headers": [["", ""]], "timestamp": 3},
    ]
    text = "".join(json.dumps(each) + "\n" for each in original)
    assert run("produce first -o jsonl -p 0", text).code == 0
    once = run("consume first -e -o jsonl").out
    assert run("produce second -o jsonl", once).code == 0
    twice = run("consume second -e -o jsonl").out
    assert [{key: json.loads(line)[key] for key in original[0]} for line in twice.splitlines()] == original
    assert once.replace('"first"', '"second"') == twice


def test_json_lines_name_their_own_topic_and_partition(run: Run) -> None:
    assert run("topics --create --topic three --partitions 3").code == 0
    text = "".join(f'{{"topic":"three","partition":{n},"value":"{n}"}}\n' for n in (2, 0))
    assert run("produce -o jsonl --keep-partition", text).code == 0
    assert sorted(run("consume three -e -f '%p=%v '").out.split()) == ["0=0", "2=2"]


def test_a_format_goes_in_and_out(run: Run) -> None:
    assert run("produce formatted -f '%k:%v\\n' -H source=test", "a:1\nb:2\n").code == 0
    assert run("consume formatted -e -f '%t %p %o %k %v %h\\n'").out == (
        "formatted 0 0 a 1 source=test\nformatted 0 1 b 2 source=test\n"
    )


def test_options_lie_on_every_record(run: Run) -> None:
    assert run("produce laid -k key -Z -z zstd", "value\n\n").code == 0
    assert [json.loads(line)["value"] for line in run("consume laid -e -o json").out.splitlines()] == ["value", None]


def test_reading_makes_no_topic(run: Run) -> None:
    assert run("consume misspelt --timeout-ms 0").code == 0
    assert run("topics --list --topic misspelt").out == "\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("consume", "ottla consume TOPIC"),
        ("consume numbers --from yesterday", "--from yesterday: one of these is expected"),
        ("consume numbers --until x", "--until x"),
        ("consume numbers -f %z", "%z is no verb"),
        ("consume numbers -f %v -o json", "cannot be used together"),
        ("consume no-such-topic --exit", "there is no topic no-such-topic"),
        ("consume numbers --exit -p 99", "there is no partition 99 in numbers"),
        ("consume numbers --group ''", "the group's name must not be empty"),
        ("consume '' --group g", "the topic's name must not be empty"),
        ("consume '' --number 1", "Invalid topics: []"),
        ("consume 'a b' --number 1", "Invalid topics: [a b]"),
        ("console-consumer --topic 'a b'", "Invalid topics: [a b]"),
        ("console-consumer --topic numbers --group ''", "the group's name must not be empty"),
        ("consume numbers --tail -1", "Cannot parse argument '-1' of option tail"),
        ("consume numbers -n -1", "Cannot parse argument '-1' of option number"),
        ("consume numbers --timeout-ms -1", "Cannot parse argument '-1' of option timeout-ms"),
        ("produce t -X linger.ms=-5", "Invalid value -5 for configuration linger.ms: Value must be at least 0"),
        ("console-producer --topic t --batch-size -5", "Invalid value -5 for configuration batch.size"),
        ("produce", "ottla produce TOPIC"),
        ("produce t -f %v -o jsonl", "cannot be used together"),
        ("produce t -H x", "NAME=VALUE is expected"),
        ("produce t -o jsonl", "line 1 is no record"),
        ("produce t -X acks=all -X foo.bar=1 -o jsonl", "foo.bar has no effect here"),
    ],
)
def test_a_mistake_says_what_is_wrong(run: Run, numbers: str, arguments: str, said: str) -> None:
    found = run(arguments, "no record\n")
    assert found.code == 1
    assert said in found.err and "Traceback" not in found.err


def test_console_consumer_takes_negative_limits_as_kafkas(run: Run, numbers: str) -> None:
    assert run(f"console-consumer --topic {numbers} --from-beginning --max-messages -2").out == ""
    text = f"console-consumer --topic {numbers} --from-beginning --timeout-ms -5 --max-messages 3"
    assert len(run(text).out.splitlines()) == 3


def test_a_partition_that_may_come_is_waited_for_and_named(run: Run, numbers: str) -> None:
    found = run("consume numbers -p 99 --timeout-ms 0")
    assert (found.code, found.out) == (0, "")
    assert "there is no partition 99 in numbers yet; waiting for it" in found.err


def test_a_group_that_has_read_all_says_what_it_waits_for(
    run: Run, numbers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.cli.records.group_printing.TOLD_AFTER_SECONDS", 1.0)
    assert run(f"consume {numbers} --group waiting --number 10").out.split() == [str(n) for n in range(10)]
    found = run(f"consume {numbers} --group waiting --timeout-ms 3000")
    assert (found.code, found.out) == (0, "")
    told = f"group waiting has read {numbers} up to the end, as far as the partitions of this member go; waiting"
    assert told in found.err


def test_a_batch_size_that_is_no_number_is_one_sentence(run: Run, numbers: str) -> None:
    found = run(f"produce {numbers} -X batch.size=many", "x\n")
    assert found.code == 1 and "batch.size: Not a number of type INT" in found.err and found.err.count("\n") == 1


def test_small_records_fit_into_a_topic_that_takes_small_batches(run: Run) -> None:
    assert run("topics --create --topic narrow --partitions 1 --config max.message.bytes=1000").code == 0
    text = "".join(f"{n}\n" for n in range(2000))
    found = run("produce narrow", text)
    assert (found.code, found.err) == (0, "")
    assert run("consume narrow -e").out == text


@pytest.mark.parametrize(
    ("command", "size", "told"),
    [
        (
            "produce tight",
            2000,
            "a record for topic tight has 2070 bytes, and topic tight takes 1000: raise max.message.bytes of the topic",
        ),
        ("console-producer --bootstrap-server {at} --topic tight", 2000, "takes 1000: raise max.message.bytes of the"),
        (
            "produce wide -X max.request.size=3000000",
            2_000_000,
            "a record for topic wide has 2000074 bytes, and topic wide takes 1048588, as message.max.bytes of the brokers "
            "says: set max.message.bytes of the topic, or raise message.max.bytes",
        ),
        (
            "produce wide",
            2_000_000,
            "a record for topic wide has 2000074 bytes, and this client sends 1048576: raise max.request.size (-X "
            "max.request.size=N) of the client, and max.message.bytes of topic wide where that takes fewer too",
        ),
        ("console-producer --bootstrap-server {at} --topic wide", 2_000_000, "(--command-property max.request.size=N)"),
    ],
)
def test_a_record_that_is_too_large_is_told_with_its_size_the_limit_and_the_setting(
    run: Run, bootstrap: str, command: str, size: int, told: str
) -> None:
    for topic in ("tight --config max.message.bytes=1000", "wide"):
        assert run(f"topics --create --if-not-exists --partitions 1 --topic {topic}").code == 0
    found = run(command.format(at=bootstrap), "x" * size + "\n")
    assert found.code == 1
    assert told in found.err and found.err.count("\n") == 1
