"""A Connect worker whose tasks run on YARN, the worker being the driver: what docs/connect.md says of that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.sessions import settings_for
from tests.peer import yarn
from tests.server import running_server
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
