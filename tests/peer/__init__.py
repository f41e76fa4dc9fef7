"""Real Apache Kafka, to compare with and to measure beside: its jars, a broker of it, and its tools.

The jars come from Maven by coordinates (`pom.xml`), into a cache outside the checkout: `$KAFKA_PEER`, or
`~/.cache/kafka-peer`. `make peer` fetches them; what needs them skips with a line where they are absent.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.ports import CONTROLLERS_AFTER, free_port
from tests.processes import end

__all__ = [
    "CONTROLLER_PORT_AFTER",
    "FULL_SPEED",
    "QUICK_START",
    "TOOLS",
    "answers",
    "cache",
    "fetch",
    "java",
    "missing",
    "new_id",
    "one_jvm",
    "program",
    "running_broker",
    "tool",
    "tool_command",
]

_POM = Path(__file__).with_name("pom.xml")
_TOOLS = "org.apache.kafka.tools."
TOOLS = {
    "topics": _TOOLS + "TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-producer": _TOOLS + "ConsoleProducer",
    "console-consumer": _TOOLS + "consumer.ConsoleConsumer",
    "share-consumer": _TOOLS + "consumer.ConsoleShareConsumer",
    "producer-perf": _TOOLS + "ProducerPerformance",
    "consumer-perf": _TOOLS + "ConsumerPerformance",
    "e2e": _TOOLS + "EndToEndLatency",
    "groups": _TOOLS + "consumer.group.ConsumerGroupCommand",
    "reassign-partitions": _TOOLS + "reassign.ReassignPartitionsCommand",
    "leader-election": _TOOLS + "LeaderElectionCommand",
    "log-dirs": _TOOLS + "LogDirsCommand",
    "get-offsets": _TOOLS + "GetOffsetShell",
    "consumer-groups": _TOOLS + "consumer.group.ConsumerGroupCommand",
    "metadata-quorum": _TOOLS + "MetadataQuorumCommand",
    "broker-api-versions": _TOOLS + "BrokerApiVersionsCommand",
    "delegation-tokens": _TOOLS + "DelegationTokenCommand",
    "delete-records": _TOOLS + "DeleteRecordsCommand",
    "dump-log": _TOOLS + "DumpLogSegments",
    "storage": "kafka.tools.StorageTool",
    "quorum": _TOOLS + "MetadataQuorumCommand",
    "features": _TOOLS + "FeatureCommand",
    "cluster": _TOOLS + "ClusterTool",
    "api-versions": _TOOLS + "BrokerApiVersionsCommand",
    "verifiable-producer": _TOOLS + "VerifiableProducer",
    "verifiable-consumer": _TOOLS + "VerifiableConsumer",
    "streams-wordcount": "org.apache.kafka.streams.examples.wordcount.WordCountDemo",
}
"""Short names of Kafka's tools, and the class behind each."""
SHARE = "-Xshare:auto"
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", SHARE)
"""Flags with which a JVM of a test starts for little more than half; what is measured runs with FULL_SPEED."""
QUIET_ARCHIVE = "-Xlog:cds*=off"
"""Java warns of every class that it leaves out."""
FULL_SPEED = ("-XX:+UseG1GC",)
ENDED_BY_SIGTERM = 143
"""The exit code of a JVM that was asked to end, and has."""
CONTROLLER_PORT_AFTER = CONTROLLERS_AFTER
"""How far the controller's port is from the broker's."""


def cache() -> Path:
    """Return the folder that holds (or will hold) the jars, in `lib`."""
    return Path(os.environ.get("KAFKA_PEER", Path.home() / ".cache" / "kafka-peer"))


def missing() -> str | None:
    """Return one line that says why the peer cannot run here, or None where it can."""
    if shutil.which("java") is None:
        return "Apache Kafka's peer is absent: no java on PATH"
    if not _complete():
        return "Apache Kafka's peer is absent: `make peer` fetches its jars with Maven"
    return None


def fetch() -> None:
    """Resolve the jars once; raises CalledProcessError when Maven fails, FileNotFoundError without Maven."""
    if _complete():
        return
    cache().mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["mvn", "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies", f"-DoutputDirectory={cache() / 'lib'}"],
        check=True,
    )
    (cache() / ".complete").write_text(_wanted())


def _wanted() -> str:
    return hashlib.sha256(_POM.read_bytes()).hexdigest()


def _complete() -> bool:
    """Return whether the jars are those of the pom as it is now."""
    mark = cache() / ".complete"
    return mark.exists() and mark.read_text() == _wanted()


def java(*args: str) -> list[str]:
    """Return a command line of Java with Kafka's classes: flags of one's own, a class, its arguments."""
    level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    classes = _archived_classes()
    archive = [f"-XX:SharedArchiveFile={classes}", QUIET_ARCHIVE] if SHARE in args and classes.exists() else []
    return ["java", level, *archive, "-cp", f"{cache() / 'lib'}/*", *args]


def program(main: Path, *others: Path) -> list[str]:
    """Return what ends a command of Java that runs a program of ours with Kafka's classes, from this source and others.

    They are compiled once and kept beside the jars: Java's own way to run a source costs a compiler in each JVM.
    """
    return ["-cp", f"{cache() / 'lib'}/*:{_compiled({main, *others})}", main.stem]


def _compiled(sources: set[Path]) -> Path:
    """Return the folder of compiled sources, one for each state of them and of the jars."""
    state = hashlib.sha256(b"".join((_wanted().encode(), *(each.read_bytes() for each in sorted(sources))))).hexdigest()
    folder = cache() / f"classes-{state[:16]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache()) as aside:
            made = Path(aside) / "classes"
            command = ["javac", "-nowarn", "-cp", f"{cache() / 'lib'}/*", "-d", str(made), *map(str, sorted(sources))]
            subprocess.run(command, check=True, capture_output=True)
            with suppress(OSError):  # another process was quicker
                made.rename(folder)
    return folder


def _archived_classes() -> Path:
    """Return the archive of a broker's classes for these jars and this Java, which is there once a broker has ended.

    A JVM that finds it maps what a run before has loaded: a broker starts with 1.7 s of the processor in the place of 2.7.
    """
    path = shutil.which("java") or ""
    facts = (_wanted(), os.path.realpath(path), os.stat(path).st_mtime_ns if path else 0)
    return cache() / f"broker-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.jsa"


def tool_command(name: str, *args: str) -> list[str]:
    """Return the command line of one of Kafka's tools, by short name or class."""
    return java("-Xmx512m", *FULL_SPEED, TOOLS.get(name, name), *args)


def tool(
    name: str, *args: str, timeout: float = 120, stdin: str | None = None, flags: Sequence[str] = QUICK_START
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end and return what it printed; never raises on its exit code."""
    command = java("-Xmx512m", *flags, TOOLS.get(name, name), *args)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, input=stdin)


@contextmanager
def one_jvm() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Start one JVM for many tools: yields a function like `tool` that costs no start; for tools that read no input."""
    flags = [
        "-XX:TieredStopAtLevel=1",
        "-Djava.security.manager=allow",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ]
    command = ["java", "-Xmx512m", *flags, *program(Path(__file__).with_name("ToolRunner.java"))]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )

    def run(name: str, *args: str) -> subprocess.CompletedProcess[str]:
        assert process.stdin is not None and process.stdout is not None
        words = [TOOLS.get(name, name), *args]
        process.stdin.write(" ".join("=" + base64.b64encode(word.encode()).decode() for word in words) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().split()
        assert len(answer) == 3, f"the tools' JVM has ended, with exit code {process.wait(10)}"
        code, out, err = answer
        texts = [base64.b64decode(text[1:]).decode() for text in (out, err)]
        return subprocess.CompletedProcess([name, *args], int(code), *texts)

    try:
        yield run
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def broker_properties(folder: Path, port: int, overrides: Sequence[str] = ()) -> str:
    """Return server.properties of a one-node KRaft broker on 127.0.0.1."""
    lines = [
        "process.roles=broker,controller",
        "node.id=1",
        f"controller.quorum.voters=1@127.0.0.1:{port + CONTROLLER_PORT_AFTER}",
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + CONTROLLER_PORT_AFTER}",
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        f"log.dirs={folder / 'data'}",
        "offsets.topic.replication.factor=1",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
        "share.coordinator.state.topic.replication.factor=1",
        "share.coordinator.state.topic.min.isr=1",
        "group.initial.rebalance.delay.ms=0",
        *overrides,
    ]
    return "\n".join(lines) + "\n"


@contextmanager
def running_broker(
    folder: Path,
    port: int,
    *,
    overrides: Sequence[str] = (),
    heap: str = "1g",
    flags: Sequence[str] = QUICK_START,
    timeout: float = 120,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a broker of Apache Kafka on 127.0.0.1:`port` with its data under `folder`, until the block ends.

    Raises RuntimeError where something else answers on the port, and where the broker does not come up.
    """
    if answers(port):
        raise RuntimeError(f"another broker answers on 127.0.0.1:{port} already")
    folder.mkdir(parents=True, exist_ok=True)
    conf = folder / "server.properties"
    conf.write_text(broker_properties(folder, port, overrides))
    if not (folder / "data" / "meta.properties").exists():
        shutil.copytree(_formatted_once().name, folder / "data", dirs_exist_ok=True)
        lines = ["version=1", f"cluster.id={new_id()}", "node.id=1", f"directory.id={new_id()}"]
        (folder / "data" / "meta.properties").write_text("\n".join(lines) + "\n")
    log = (folder / "broker.out").open("ab")
    archive, written = _archived_classes(), folder / "classes.jsa"
    writes = SHARE in flags and not archive.exists()
    writing = [f"-XX:ArchiveClassesAtExit={written}", QUIET_ARCHIVE] if writes else []
    process = subprocess.Popen(java(f"-Xmx{heap}", *flags, *writing, "kafka.Kafka", str(conf)), stdout=log, stderr=log)
    try:
        _await_answer(process, port, timeout)
        yield process
    finally:
        end(process, 120 if writes else 30)
        log.close()
        if process.returncode == ENDED_BY_SIGTERM and written.exists():
            shutil.move(written, archive.with_suffix(f".{process.pid}"))
            archive.with_suffix(f".{process.pid}").rename(archive)


@functools.cache
def _formatted_once() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that Kafka's storage tool has formatted, to copy and to give an identity; it goes with us."""
    data = tempfile.TemporaryDirectory(prefix="kafka-formatted-")
    with tempfile.TemporaryDirectory() as aside:
        conf = Path(aside) / "server.properties"
        conf.write_text(broker_properties(Path(aside), free_port(), [f"log.dirs={data.name}"]))
        done = tool("storage", "format", "-c", str(conf), "-t", new_id())
    if done.returncode:
        raise RuntimeError(f"Kafka's storage tool refused: {done.stdout}{done.stderr}")
    return data


def new_id() -> str:
    """Return a new identifier in Kafka's spelling, none that begins with a dash."""
    while (text := base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _await_answer(process: subprocess.Popen[bytes], port: int, timeout: float) -> None:
    """Return when the broker answers ApiVersions; raises RuntimeError when it ends or takes too long."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"Apache Kafka ended with exit code {process.returncode} during its start")
        if answers(port):
            return
        time.sleep(0.1)
    raise RuntimeError(f"Apache Kafka did not answer on 127.0.0.1:{port} within {timeout} s")


def answers(port: int) -> bool:
    """Return whether something on this machine's port answers ApiVersions."""
    import socket

    request = b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"  # ApiVersions version 0, no client id
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.settimeout(5)
            connection.sendall(len(request).to_bytes(4, "big") + request)
            return len(connection.recv(4)) == 4
    except OSError:
        return False
