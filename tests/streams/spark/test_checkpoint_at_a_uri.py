"""Checkpoints in a file system that only Spark reaches: seen, missed where they are lost, and removed."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.base import ConfigError
from ottla.client import BlockingClient
from ottla.spark import StreamsApplication
from ottla.spark.checkpoint_files import HadoopFiles
from ottla.spark.streams.preparation import prepare
from tests.peer import hdfs
from tests.streams.spark.test_application import World, joining
from tests.streams.spark.test_one_driver import kill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def uri(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A folder under a name that is a URI to Hadoop, and nothing to Python."""
    name = "t" + re.sub(r"\W|_", "", request.node.name)[-40:].lower()
    (tmp_path / "far").mkdir()
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    settings.set(f"fs.viewfs.mounttable.{name}.link./state", f"file://{tmp_path}/far")
    return f"viewfs://{name}/state"


def test_a_lost_checkpoint_at_a_uri_is_noticed(
    world: World, uri: str, spark: SparkSession, client: BlockingClient, tmp_path: Path
) -> None:
    world.feed("one", "two", key="k")
    with world.application(
        joining(world.name), processing_guarantee="exactly_once", state_dir=f"{tmp_path}/far"
    ) as first:
        world.until(first, "lines", {"k": "one two"})
    far = world.application(joining(world.name), processing_guarantee="exactly_once", state_dir=uri)
    assert far._files() is not None
    seen = prepare(client, far.topology, far.stages, far.settings, far._files())
    assert (seen.rebuilt, seen.starting) == ((), {}) and seen.checkpoint.root == f"{uri}/app-{world.name}"
    shutil.rmtree(tmp_path / "far" / f"app-{world.name}")
    (stage,) = far.stages.stages
    lost = prepare(client, far.topology, far.stages, far.settings, far._files())
    assert lost.rebuilt == (stage.name,)
    assert json.loads((tmp_path / "far" / f"app-{world.name}" / "plan.json").read_text())["rebuilding"] == [stage.name]
    assert lost.checkpoint.remove() and not (tmp_path / "far" / f"app-{world.name}").exists()


def test_state_that_could_not_be_seen_is_refused(world: World, uri: str, client: BlockingClient) -> None:
    far = world.application(joining(world.name), state_dir=uri)
    with pytest.raises(ConfigError, match=r"state\.dir.*cannot be seen over Spark Connect"):
        prepare(client, far.topology, far.stages, far.settings)


def test_files_at_a_uri_are_as_files_of_a_folder(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    files = HadoopFiles(spark, uri)
    assert files.names(f"{uri}/a") == [] and files.read(f"{uri}/a/b") is None and not files.remove(f"{uri}/a")
    files.write(f"{uri}/a/b", "one")
    files.write(f"{uri}/a/b", "zwölf")
    assert "b" in files.names(f"{uri}/a") and files.read(f"{uri}/a/b") == "zwölf"
    assert (tmp_path / "far" / "a" / "b").read_text() == "zwölf"
    assert files.remove(f"{uri}/a") and not (tmp_path / "far" / "a").exists()


@pytest.mark.slow  # three applications; that the loss is noticed is above, and what follows it in `test_application.py`
@pytest.mark.parametrize("system", ["viewfs", pytest.param("hdfs", marks=pytest.mark.peer)])
def test_an_application_that_is_killed_and_loses_its_checkpoint_at_a_uri_goes_on_exactly_once(
    world: World, system: str, uri: str, spark: SparkSession, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        where = uri
        if system == "hdfs":
            if (reason := hdfs.missing()) is not None:
                pytest.skip(reason)
            where = f"{stack.enter_context(hdfs.running_hdfs(tmp_path / 'hdfs'))}/state"

        def driver() -> StreamsApplication:
            settings = {"processing_guarantee": "exactly_once", "state_dir": where, "session_timeout_ms": 2_000}
            return world.application(joining(world.name), **settings)

        world.feed("w0", "w1", key="k")
        first = driver().start()
        first._commit = lambda offsets: None  # type: ignore[method-assign]
        world.until(first, "lines", {"k": "w0 w1"})
        kill(first)
        assert HadoopFiles(spark, where).remove(f"{where}/app-{world.name}")
        world.feed("w2", key="k")
        for turn, words in enumerate(("w0 w1 w2", "w0 w1 w2 w3")):
            with driver() as application:
                world.until(application, "lines", {"k": words})
                assert application.prepared is not None and bool(application.prepared.rebuilt) == (turn == 0)
            if turn == 0:
                world.feed("w3", key="k")
        found = [value.decode() for _, value in world.outputs()]
        assert found[-1] == "w0 w1 w2 w3" and found == sorted(set(found))
