"""What a worker whose master is a Spark cluster knows without one: addresses, slots that come and go, what is sent."""

from __future__ import annotations

import asyncio
import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ottla.base import ConfigError
from ottla.connect.storage import State
from ottla.spark.connect.cluster import BIND, HOST, address_settings, driver_address
from ottla.spark.shipping import ottla_archive, packed
from tests.connect.tasks.world import bench, task_start

MASTER = "spark://127.0.0.1:7077"


def test_executors_reach_the_worker_at_its_address_on_the_way_to_the_master() -> None:
    assert driver_address({}, MASTER) == "127.0.0.1"
    assert driver_address({}, f"{MASTER},127.0.0.2:7077") == "127.0.0.1"
    given = {HOST: "connect.example", BIND: "0.0.0.0"}
    assert address_settings(given, MASTER) == given
    assert address_settings({HOST: "10.0.0.7"}, MASTER) == {HOST: "10.0.0.7", BIND: "10.0.0.7"}


def test_a_master_that_nobody_knows_is_refused_with_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"spark\.driver\.host.*nowhere\.invalid"):
        driver_address({}, "spark://nowhere.invalid:7077")


def test_a_clusters_slots_come_and_go_with_its_executors() -> None:
    async def story() -> None:
        async with bench(slots=0, **{"spark.master": MASTER}) as made:
            await made.runner.start([task_start()])
            await made.until(State.FAILED)
            trace = made.owner.told[-1].trace or ""
            assert "no core for this worker" in trace and "spark.cores.max" in trace
            made.jobs.slots = 1
            await made.until(State.FAILED, State.RUNNING)

    asyncio.run(story())


def test_the_ottla_that_is_sent_runs_from_its_zip(tmp_path: Path) -> None:
    archive = ottla_archive()
    imports = "import ottla.connect, pyspark_ottla; print(ottla.connect.__file__)"
    code = f"import sys; sys.path[:0] = [{str(archive)!r}]; {imports}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith(str(archive))


def test_what_is_compiled_is_sent_compiled_and_taken_without_a_look_at_the_source(tmp_path: Path) -> None:
    module = tmp_path / "sent.py"
    module.write_text("print(__cached__)\n")
    py_compile.compile(str(module))
    archive = packed("sent", {"sent.py": module})
    code = f"import sys; sys.path[:0] = [{str(archive)!r}]; import sent; print(sent.__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.split()[-1] == f"{archive}/sent.pyc"
    module.write_text("print('changed since then')\n")
    assert zipfile.ZipFile(packed("sent", {"sent.py": module})).namelist() == ["sent.py"]
