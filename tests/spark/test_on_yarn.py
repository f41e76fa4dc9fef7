"""Connect's tasks and Streams' applications on YARN: what docs/connect.md and docs/streams.md say of that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.base import TopicPartition
from ottla.client import BlockingClient
from ottla.spark.sessions import settings_for
from ottla.wire import Record, build_batch
from tests.peer import yarn
from tests.server import running_server
from tests.spark.conftest import create_topic
from tests.spark.running import records_of
from tests.waiting import until

pytestmark = [pytest.mark.spark]
WORKER = """
listeners=http://127.0.0.1:0
bootstrap.servers={bootstrap}
offset.storage.file.filename={folder}/offsets
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.flush.interval.ms=500
spark.master=yarn
spark.submit.deployMode=client
spark.yarn.jars=local:{jars}/*
spark.yarn.stagingDir={folder}
spark.executor.instances=1
spark.executor.cores=2
spark.executor.memory=512m
spark.yarn.am.memory=512m
"""
LINES = ("to be or not", "to be")
COUNTS = {b"to": 2, b"be": 2, b"or": 1, b"not": 1}
WORDS = """
from ottla.spark import StreamsApplication
from ottla.streams import StreamsBuilder

builder = StreamsBuilder()
words = builder.stream("lines", key_serde="string", value_serde="string").flat_map_values(str.split)
counts = words.group_by(lambda key, word: word, key_serde="string", value_serde="string").count()
counts.to_stream().to("counts", key_serde="string", value_serde="long")
topology = builder.build()
settings = {settings!r}

if __name__ == "__main__":
    app = StreamsApplication(topology, settings)
    app.start()
    app.wait()
"""


def test_python_of_an_executor_on_yarn_is_not_asked_to_listen_in_a_folder_with_a_long_name() -> None:
    key = "spark.python.unix.domain.socket.enabled"
    masters = ("local[*]", "spark://host:7077", "k8s://https://host", "yarn")
    assert [settings_for(each)[key] for each in masters] == ["true", "true", "true", "false"]


@pytest.mark.slow  # YARN starts, and Spark on it: more than a minute; make compat
@pytest.mark.peer
@pytest.mark.timeout(600)
def test_tasks_of_a_worker_run_in_containers_of_yarn(tmp_path: Path) -> None:
    if reason := yarn.missing():
        pytest.skip(reason)
    import pyspark

    jars = Path(pyspark.__path__[0]) / "jars"
    given, written = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = [f"line {number}" for number in range(100)]
    given.write_text("".join(f"{each}\n" for each in lines))
    with running_server(tmp_path) as server, yarn.running_yarn(tmp_path / "yarn") as conf:
        files = {
            "worker": WORKER.format(bootstrap=server.bootstrap, folder=tmp_path, jars=jars),
            "source": f"name=source\nconnector.class=FileStreamSource\nfile={given}\ntopic=lines\n",
            "sink": f"name=sink\nconnector.class=FileStreamSink\nfile={written}\ntopics=lines\n",
        }
        paths = [tmp_path / f"{name}.properties" for name in files]
        for path, text in zip(paths, files.values(), strict=True):
            path.write_text(text)
        log = tmp_path / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli.main", "connect-standalone", *map(str, paths)],
                stdout=out,
                stderr=out,
                env={**os.environ, "HADOOP_CONF_DIR": str(conf)},
            )
        try:
            until(
                lambda: written.exists() and written.read_text().splitlines() == lines,
                lambda: log.read_text()[-3000:],
                seconds=240,
            )
            containers = [each for each in (tmp_path / "yarn").rglob("container_*_000002") if each.is_dir()]
            assert containers, "an executor was in a container"
        finally:
            process.terminate()
            process.wait(100)


def application(server_bootstrap: str, folder: Path, **more: str) -> Path:
    """Write an application that counts words on YARN, and give it lines; returns its file."""
    import pyspark

    settings = {
        "application.id": "words",
        "bootstrap.servers": server_bootstrap,
        "state.dir": str(folder / "state"),
        "spark.master": "yarn",
        "spark.yarn.jars": f"local:{Path(pyspark.__path__[0]) / 'jars'}/*",
        "spark.yarn.stagingDir": str(folder),
        "spark.executor.instances": "1",
        "spark.executor.cores": "2",
        "spark.executor.memory": "512m",
        "spark.yarn.am.memory": "512m",
        **more,
    }
    path = folder / "words.py"
    path.write_text(WORDS.format(settings=settings))
    with BlockingClient(server_bootstrap) as client:
        for each in ("lines", "counts"):
            create_topic(client, each, 2)
        records = [Record(0, 1000 + at, None, line.encode(), ()) for at, line in enumerate(LINES)]
        client.produce({TopicPartition("lines", 0): bytes(build_batch(records))})
    return path


def counted(bootstrap: str) -> dict[bytes | None, int]:
    """Return the last count of each word."""
    return {each.key: int.from_bytes(each.value or b"", "big") for each in records_of(bootstrap, "counts")}


def run_until_counted(command: list[str], log: Path, bootstrap: str, environment: dict[str, str]) -> None:
    """Run a command until the words are counted, and end it."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **environment}, cwd=log.parent)
    try:
        until(
            lambda: counted(bootstrap) == COUNTS,
            lambda: f"{counted(bootstrap)}\n{log.read_text()[-3000:]}",
            seconds=240,
        )
    finally:
        process.terminate()
        process.wait(100)


@pytest.mark.slow  # YARN starts, and Spark on it: more than a minute; make compat
@pytest.mark.peer
@pytest.mark.timeout(600)
@pytest.mark.parametrize("execution", ["micro-batch", "continuous"])
def test_a_streams_application_counts_in_containers_of_yarn(tmp_path: Path, execution: str) -> None:
    if reason := yarn.missing():
        pytest.skip(reason)
    with running_server(tmp_path) as server, yarn.running_yarn(tmp_path / "yarn") as conf:
        path = application(server.bootstrap, tmp_path, execution=execution)
        command = [sys.executable, "-m", "ottla.cli.main", "streams", "run", str(path)]
        run_until_counted(command, tmp_path / "log", server.bootstrap, {"HADOOP_CONF_DIR": str(conf)})
        assert [each for each in (tmp_path / "yarn").rglob("container_*_000002") if each.is_dir()]


@pytest.mark.slow  # YARN starts, and Spark on it: more than a minute; make compat
@pytest.mark.peer
@pytest.mark.timeout(600)
def test_a_streams_application_that_is_submitted_in_cluster_mode_has_its_driver_in_a_container(tmp_path: Path) -> None:
    if reason := yarn.missing():
        pytest.skip(reason)
    import pyspark

    submit = Path(pyspark.__path__[0]) / "bin" / "spark-submit"
    with running_server(tmp_path) as server, yarn.running_yarn(tmp_path / "yarn") as conf:
        path = application(server.bootstrap, tmp_path)
        given = {
            "spark.yarn.jars": f"local:{Path(pyspark.__path__[0]) / 'jars'}/*",
            "spark.yarn.stagingDir": str(tmp_path),
            "spark.executor.instances": "1",
            "spark.executor.cores": "2",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
            "spark.yarn.appMasterEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "spark.yarn.submit.waitAppCompletion": "true",
        }
        options = [part for key, value in given.items() for part in ("--conf", f"{key}={value}")]
        command = [str(submit), "--master", "yarn", "--deploy-mode", "cluster", *options, str(path)]
        run_until_counted(command, tmp_path / "log", server.bootstrap, {"HADOOP_CONF_DIR": str(conf)})
        containers = [each for each in (tmp_path / "yarn").rglob("container_*") if each.is_dir()]
        assert {each.name[-6:] for each in containers} >= {"000001", "000002"}, "the driver's, and an executor's"
