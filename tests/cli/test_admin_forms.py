"""Administrators' commands beyond Kafka's texts: other forms of output, and one clear sentence for whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.admin import salted_password
from ottla.admin.groups import parse_assignment
from ottla.base import ErrorCode, KafkaError, TopicPartition
from ottla.cli.commands.delete_records import parse_offsets
from ottla.cli.group_reset import parse_duration, parse_scope
from ottla.cli.options import UsageError
from ottla.java import double_text
from ottla.wire import encode
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.consumer_protocol_assignment import TopicPartition as Assigned
from tests.cli.conftest import Run
from tests.client.scripted import ScriptedBroker, offers, scripted_broker
from tests.server import Server, running_server

API_VERSIONS, METADATA = 18, 3
CONNECTED = [
    "configs {at} --describe --topic t",
    "consumer-groups {at} --list",
    "consumer-groups {at} --describe --group g",
    "consumer-groups {at} --reset-offsets --group g --topic t --to-earliest --dry-run",
    "groups {at} --list",
    "delete-records {at} --offset-json-file {file}",
    "cluster cluster-id {at}",
    "cluster list-endpoints {at}",
    "broker-api-versions {at}",
    "metadata-quorum {at} describe --status",
    "features {at} describe",
]
HEAVY = {"confluent_kafka", "numpy", "pyarrow", "pyspark", "rich", "uvloop", "yaml"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("ottla")) as found:
        yield found


@pytest.fixture
def at(run: Run, server: Server) -> str:
    """`--bootstrap-server …` of a broker with a topic `t` of two partitions, and a group `g` that committed there."""
    option = f"--bootstrap-server {server.bootstrap}"
    assert run(f"topics {option} --create --topic t --partitions 2 --if-not-exists").code == 0
    assert run(f"consumer-groups {option} --reset-offsets --group g --topic t --to-earliest --execute").code == 0
    return option


@pytest.fixture
def impatient(tmp_path: Path) -> str:
    """`--command-config …` of a client that gives up at once, and a file for delete-records."""
    (tmp_path / "records.json").write_text('{"partitions":[{"topic":"t","partition":0,"offset":1}]}')
    path = tmp_path / "client.properties"
    path.write_text("default.api.timeout.ms=300\nrequest.timeout.ms=200\nretry.backoff.ms=10\n")
    return str(path)


def test_groups_offsets_and_members_as_json(run: Run, at: str) -> None:
    rows = json.loads(run(f"consumer-groups {at} --describe --group g -o json").out)
    assert [(row["topic"], row["partition"], row["currentOffset"], row["lag"]) for row in rows] == [
        ("t", 0, 0, 0),
        ("t", 1, 0, 0),
    ]
    assert json.loads(run(f"consumer-groups {at} --describe --group g --members -o json").out) == []
    (state,) = json.loads(run(f"consumer-groups {at} --describe --group g --state -o json").out)
    assert (state["state"], state["members"]) == ("Empty", 0)
    (listed,) = json.loads(run(f"groups {at} --list -o json").out)
    assert listed == {"group": "g", "type": "Classic", "protocol": "", "state": "Empty"}


def test_configurations_as_json_lines_and_names(run: Run, at: str) -> None:
    lines = run(f"configs {at} --describe --topic t --all -o jsonl").out.splitlines()
    values = {row["name"]: row["value"] for row in map(json.loads, lines)}
    assert values["cleanup.policy"] == "delete"
    names = run(f"configs {at} --describe --topic t --all -o name").out.splitlines()
    assert names == sorted(values)
    dry = run(f"configs {at} --alter --topic t --add-config retention.ms=5 --dry-run -o json")
    assert json.loads(dry.out) == [{"entityType": "topics", "entityName": "t", "status": "valid"}]
    assert json.loads(run(f"configs {at} --describe --topic t -o json").out) == []


def test_quorum_features_endpoints_and_apis_as_json(run: Run, at: str) -> None:
    quorum = json.loads(run(f"metadata-quorum {at} describe --status -o json").out)
    assert (quorum["leaderId"], [voter["id"] for voter in quorum["currentVoters"]]) == (1, [1])
    (replica,) = json.loads(run(f"metadata-quorum {at} describe --replication -o json").out)
    assert (replica["nodeId"], replica["lag"], replica["status"]) == (1, 0, "Leader")
    features = {row["feature"]: row for row in json.loads(run(f"features {at} describe -o json").out)}
    assert features["metadata.version"]["finalizedVersionLevel"] == "4.3-IV0"
    (endpoint,) = json.loads(run(f"cluster list-endpoints {at} -o json").out)
    assert (endpoint["id"], endpoint["state"], endpoint["endpointType"]) == (1, "unfenced", "broker")
    apis = json.loads(run(f"broker-api-versions {at} -o json").out)
    fetch = next(row for row in apis if row["api"] == "Fetch")
    assert fetch["usable"] == fetch["max"]
    assert run(f"cluster api-versions {at}").out.startswith(at.split()[1])


def test_plans_moves_and_elections_as_json(run: Run, at: str, tmp_path: Path) -> None:
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text('{"topics":[{"topic":"t"}]}')
    assert json.loads(run(f"reassign-partitions {at} --list -o json").out) == []
    made = run(f"reassign-partitions {at} --generate --topics-to-move-json-file {topics} --broker-list 1 -o json")
    found = json.loads(made.out)
    assert [each["log_dirs"] for each in found["proposed"]["partitions"]] == [["any"], ["any"]]
    plan.write_text(json.dumps(found["proposed"]))
    begun = json.loads(run(f"reassign-partitions {at} --execute --reassignment-json-file {plan} -o json").out)
    assert [row["status"] for row in begun] == ["started", "started"]
    (first, _) = json.loads(run(f"reassign-partitions {at} --verify --reassignment-json-file {plan} -o json").out)
    assert first == {"topic": "t", "partition": 0, "replicas": [1], "target": [1], "status": "completed"}
    assert json.loads(run(f"reassign-partitions {at} --cancel --reassignment-json-file {plan} -o json").out) == []
    elected = run(f"leader-election {at} --election-type preferred --topic t --partition 1 -o json")
    assert json.loads(elected.out) == [{"topic": "t", "partition": 1, "status": "not needed", "error": None}]
    failed = run(f"leader-election {at} --election-type preferred --topic t --partition 9 -o json")
    assert (failed.code, json.loads(failed.out)[0]["error"]) == (1, "UNKNOWN_TOPIC_OR_PARTITION")


def test_a_plan_is_exported_edited_and_read_back(run: Run, at: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(run(f"consumer-groups {at} --reset-offsets --group g --topic t --to-latest --export --dry-run").out)
    assert plan.read_text().splitlines()[:2] == ["t,0,0", "t,1,0"]
    found = run(f"consumer-groups {at} --reset-offsets --group g --from-file {plan} --execute -o json")
    assert [row["newOffset"] for row in json.loads(found.out)] == [0, 0]


@pytest.mark.parametrize("noun", CONNECTED)
def test_an_unreachable_broker_is_one_sentence(run: Run, tmp_path: Path, impatient: str, noun: str) -> None:
    found = run(said(noun, "127.0.0.1:1", tmp_path, impatient))
    assert found.code == 1
    assert one_line(found.out + found.err, "127.0.0.1:1 refused the connection")


@pytest.mark.parametrize("noun", CONNECTED)
def test_a_port_that_is_not_kafkas_is_one_sentence(run: Run, tmp_path: Path, impatient: str, noun: str) -> None:
    with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        found = run(said(noun, f"127.0.0.1:{port}", tmp_path, impatient))
    assert found.code == 1
    assert one_line(found.out + found.err, f"127.0.0.1:{port}")


@pytest.mark.parametrize("noun", CONNECTED)
def test_a_silent_port_ends_within_the_time_given(run: Run, tmp_path: Path, impatient: str, noun: str) -> None:
    quick = Path(impatient).read_text() + "socket.connection.setup.timeout.ms=100\n"
    Path(impatient).write_text(quick)
    with listening(b"") as port:
        found = run(said(noun, f"127.0.0.1:{port}", tmp_path, impatient))
    assert found.code == 1
    assert one_line(found.out + found.err, "did not answer")


def said(noun: str, bootstrap: str, folder: Path, config: str) -> str:
    at = f"--bootstrap-server {bootstrap} --command-config {config}"
    return noun.format(at=at, file=folder / "records.json")


def one_line(text: str, part: str) -> bool:
    """Whether exactly one line says what is wrong, and nothing looks like a crash."""
    return sum(part in line for line in text.splitlines()) == 1 and "Traceback" not in text


@contextmanager
def listening(answer: bytes) -> Iterator[int]:
    """Accept connections and send these bytes to each."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                if answer:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for connection in kept:
            connection.close()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("consumer-groups {at} --describe --group zzz", "GroupIdNotFoundException"),
        ("consumer-groups {at} --reset-offsets --group g --topic zzz --to-latest --dry-run", "does not host this"),
        ("consumer-groups {at} --reset-offsets --group g --from-file /nowhere.csv", "/nowhere.csv"),
        ("configs {at} --alter --topic zzz --add-config retention.ms=1", "zzz"),
        ("configs {at} --alter --topic t --add-config-file /nowhere", "/nowhere"),
        ("configs {at} --describe --entity-type topic", "Invalid entity type topic"),
        ("cluster unregister {at}", 'Missing required argument "[id]"'),
        ("cluster nonsense", "invalid choice: 'nonsense'"),
        ("metadata-quorum {at}", "too few arguments"),
        ("metadata-quorum {at} remove-controller -i 1", "--controller-directory-id/-d is required"),
        ("metadata-quorum {at} add-controller --command-config /nowhere", "/nowhere"),
        ("reassign-partitions {at} --verify --reassignment-json-file /nowhere", "Unable to read file /nowhere"),
        ("leader-election {at} --election-type preferred --path-to-json-file /nowhere", "/nowhere"),
        ("features {at} upgrade --feature x", "equals sign not found"),
        ("storage info", "--config/-c is required"),
        ("storage version-mapping -r 9.9", "Unknown metadata.version '9.9'"),
        ("groups {at} --list --group-type nonsense", "--group-type must be a valid group type."),
    ],
)
def test_a_mistake_is_named_and_ends_with_1(run: Run, at: str, arguments: str, part: str) -> None:
    found = run(arguments.format(at=at))
    assert found.code == 1
    assert one_line(found.out + found.err, part), found


def test_an_api_that_a_broker_lacks_is_one_sentence(run: Run, impatient: str) -> None:
    with scripted_beside() as broker:
        for arguments, api in [
            ("configs --describe --user u", "DescribeClientQuotas"),
            ("configs --alter --topic words --add-config retention.ms=1", "IncrementalAlterConfigs"),
            ("consumer-groups --describe --group g", "FindCoordinator"),
            ("groups --list", "ListGroups"),
            ("cluster unregister --id 7", "UnregisterBroker"),
            ("reassign-partitions --list", "ListPartitionReassignments"),
            ("leader-election --election-type preferred --all-topic-partitions", "ElectLeaders"),
            (f"metadata-quorum remove-controller -i 1 -d {'A' * 21}Q", "RemoveRaftVoter"),
            ("features upgrade --feature share.version=1", "UpdateFeatures"),
            ("metadata-quorum describe --status", "DescribeQuorum"),
        ]:
            found = run(f"{arguments} --bootstrap-server 127.0.0.1:{broker.port} --command-config {impatient}")
            assert found.code == 1
            assert one_line(found.out + found.err, f"does not offer {api}"), found


@contextmanager
def scripted_beside() -> Iterator[ScriptedBroker]:
    """Run a broker that offers nothing but Metadata, on a loop in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    script: dict[int, Any] = {API_VERSIONS: offers({API_VERSIONS: 4, METADATA: 12})}
    serving = scripted_broker(script)
    broker = asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(10)
    script[METADATA] = lambda request, version: broker.metadata([1])
    try:
        yield broker
    finally:
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def test_a_dry_run_of_credentials_sends_nothing(run: Run, at: str) -> None:
    found = run(f"configs {at} --alter --user u --add-config SCRAM-SHA-256=[password=secret] --dry-run")
    assert (found.code, found.out) == (0, "Would complete updating config for user u.\n")


def test_the_timeout_given_wins_over_the_properties_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "patient.properties"
    path.write_text("default.api.timeout.ms=600000\nsocket.connection.setup.timeout.ms=100\n")
    with listening(b"") as port:
        found = run(f"consumer-groups --bootstrap-server 127.0.0.1:{port} --command-config {path} --list --timeout 200")
    assert found.code == 1
    assert one_line(found.out, "did not answer")


def test_commands_import_no_heavy_library(at: str) -> None:
    code = (
        "import sys; from ottla.cli.main import main; main(sys.argv[1:]); "
        "import json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    for arguments in (["consumer-groups", "--list"], ["configs", "--describe", "--topic", "t"]):
        words = [sys.executable, "-c", code, *arguments, *at.split()]
        found = subprocess.run(words, capture_output=True, text=True, check=True)
        assert not HEAVY & set(json.loads(found.stderr))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1M", 60_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("-PT1S", -1000),
        ("PT-1H", -3_600_000),
        ("pt0.250s", 250),
        ("PT-0.5S", -500),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "P1DT", "foo", "PT1,5M"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(KafkaError, match="cannot be parsed to a Duration"):
        parse_duration(text)


def test_a_scope_is_topics_with_some_partitions_or_all() -> None:
    assert parse_scope(["a", "b:0,2", "b:3"]) == {"a": None, "b": [0, 2, 3]}
    with pytest.raises(UsageError, match="Invalid partition 'x'"):
        parse_scope(["a:x"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1024.0, "1024.0"),
        (12.5, "12.5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (10485760.0, "1.048576E7"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-2.5e-5, "-2.5E-5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_quotas_are_printed_as_java_prints_doubles(value: float, text: str) -> None:
    assert double_text(value) == text


def test_a_salted_password_is_pbkdf2_of_its_salt() -> None:
    import hashlib

    for mechanism, algorithm in (("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")):
        found = salted_password(mechanism, "secret", 4096)
        assert found.salted == hashlib.pbkdf2_hmac(algorithm, b"secret", found.salt, 4096)
        assert found.salt != salted_password(mechanism, "secret", 4096).salt


def test_assignments_are_read_in_every_version_and_garbage_is_nothing() -> None:
    message = ConsumerProtocolAssignment(assigned_partitions=[Assigned(topic="t", partitions=[1, 0])], user_data=None)
    for version in range(4):
        data = version.to_bytes(2, "big") + bytes(encode(message, version))
        assert parse_assignment(data) == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert parse_assignment(b"") == []
    assert parse_assignment(b"\0\0\0\0\0\x09nope") == []


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"partitions":{}}',
        '{"partitions":[3]}',
        '{"partitions":[{"topic":"t","partition":"0","offset":1}]}',
        '{"partitions":[{"topic":"t","partition":0,"offset":1.5}]}',
    ],
)
def test_a_file_for_delete_records_says_what_is_missing(text: str) -> None:
    with pytest.raises(KafkaError) as caught:
        parse_offsets(text)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
