"""The local file system that a session's JVM writes checkpoints with."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.spark.private_api.local_files import CLASS, quick_local_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
HADOOPS = "org.apache.hadoop.fs.LocalFileSystem"


@pytest.fixture
def files(spark: SparkSession) -> Any:
    """What Spark's own code gets when it asks for the file system of a path here."""
    assert quick_local_files(spark)
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return spark.sparkContext._jvm.org.apache.hadoop.fs.Path("/").getFileSystem(configuration)


def test_a_session_writes_local_files_with_permissions_and_without_checksum_files(
    spark: SparkSession, files: Any, tmp_path: Path
) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert files.getClass().getName() == CLASS
    files.create(jvm.org.apache.hadoop.fs.Path(str(tmp_path / "new")), True).close()
    assert [each.name for each in tmp_path.iterdir()] == ["new"]
    permission = jvm.org.apache.hadoop.fs.permission.FsPermission
    for text, wanted in (("640", 0o640), ("1777", 0o1777), ("700", 0o700)):
        files.setPermission(jvm.org.apache.hadoop.fs.Path(str(tmp_path / "new")), permission(text))
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == wanted


def test_files_with_a_checksum_beside_them_are_read_and_written_over(
    spark: SparkSession, files: Any, tmp_path: Path
) -> None:
    jvm: Any = spark.sparkContext._jvm
    hadoops = jvm.org.apache.hadoop.fs.LocalFileSystem()
    hadoops.initialize(jvm.java.net.URI("file:///"), spark._jsparkSession.sessionState().newHadoopConf())
    old, new = (jvm.org.apache.hadoop.fs.Path(str(tmp_path / name)) for name in ("old", "new"))
    for path, text, by in ((old, b"old", hadoops), (new, b"new", files)):
        with_it = by.create(path, True)
        with_it.write(text)
        with_it.close()
    assert files.open(old).read() == ord("o")
    (tmp_path / "old").unlink()
    assert files.rename(new, old)
    assert files.open(old).read() == ord("n")


def test_another_file_system_that_somebody_has_chosen_stays(spark: SparkSession, files: Any) -> None:
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("fs.file.impl", HADOOPS)
    try:
        assert not quick_local_files(spark)
    finally:
        configuration.unset("fs.file.impl")
