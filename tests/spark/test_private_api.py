"""What Spark does not document is as Ottla takes it to be: a test for each use.

The descriptors of Py4J's callback server and the local file system have files of their own (`test_callbacks`,
`test_local_files`).
"""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ottla.spark.checkpoint_files import LocalFiles
from ottla.spark.private_api.arrow_types import arrow_schema, spark_schema
from ottla.spark.private_api.batches import (
    ARROW_OVERFLOWS,
    UnknownInputError,
    arrow_rdd,
    batches_held_up,
    input_partitions,
    query_id,
    run_id,
    task_count,
)
from ottla.spark.private_api.checkpoints import BY_FILE_CONTEXT, BY_FILE_SYSTEM, FILES_BY, QueryCheckpoint
from ottla.spark.private_api.expressions import CatalystExpression, resolved_expression
from ottla.spark.private_api.gateway import ask_numpy_alone, forget_gateway, java_reason, launched_by, silence_py4j
from ottla.spark.private_api.hadoop import HadoopFileSystem
from ottla.spark.private_api.sessions import executor_slots, is_classic
from ottla.spark.private_api.workers import by_value, load_worker, pickled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
BATCH_SECONDS_MAX = 100.0


def test_the_package_admits_the_version_alone_that_these_tests_run_with() -> None:
    import pyspark

    pins = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    assert f"pyspark=={pyspark.__version__}" in pins


# -- values for the JVM


def test_a_session_brings_in_neither_pandas_nor_test_tools() -> None:
    program = """
import sys
from ottla.spark.sessions import let_go, session
spark = session(master="local[1]", registered=False)
print(spark.sparkContext.parallelize([0], 1).count(), [name for name in ("pandas", "unittest") if name in sys.modules])
let_go(spark)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=240)
    assert done.stdout.strip() == "1 []"


def test_numpys_values_go_to_the_jvm_as_before(spark: SparkSession) -> None:
    import numpy
    from pyspark.sql import functions

    ask_numpy_alone()
    ask_numpy_alone()  # twice is as once
    row = spark.range(1).select(functions.lit(numpy.int64(7)), functions.lit(numpy.array([1, 2], "int32"))).first()
    assert row is not None and tuple(row) == (7, [1, 2])


def test_while_another_thread_imports_numpy_no_value_is_one_of_its(monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.protocol import INPUT_CONVERTER

    ask_numpy_alone()
    monkeypatch.setitem(sys.modules, "numpy", ModuleType("numpy"))
    assert not any(each.can_convert("text") for each in INPUT_CONVERTER)


# -- sessions


def test_a_session_with_a_jvm_and_its_frames_are_classic(spark: SparkSession) -> None:
    assert is_classic(spark) and is_classic(spark.range(1))


def test_a_session_that_refuses_a_context_as_spark_connects_does_is_not_classic() -> None:
    from pyspark.errors import PySparkAttributeError

    class Remote:
        def __getattr__(self, name: str) -> Any:
            raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name})

    class Frame:
        sparkSession = Remote()

    remote, frame = Remote(), Frame()
    assert not is_classic(remote) and not is_classic(frame)  # type: ignore[arg-type]


def test_a_local_sessions_executor_has_the_slots_of_its_master(spark: SparkSession) -> None:
    assert executor_slots(spark.sparkContext) == spark.sparkContext.defaultParallelism


# -- batches


@pytest.fixture(scope="module")
def numbers(spark: SparkSession) -> str:
    """A data source in Python, of two partitions."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):  # inside, so that it travels by value
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(7), InputPartition(8)]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            yield (partition.value,)

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "private_api_numbers"

        def schema(self) -> str:
            return "number int"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Numbers)
    return Numbers.name()


def test_a_frame_has_as_many_tasks_as_partitions(spark: SparkSession) -> None:
    assert task_count(spark.range(10).repartition(3)) == 3


def test_the_partitions_of_a_python_source_are_known_before_they_are_read(spark: SparkSession, numbers: str) -> None:
    read = spark.read.format(numbers).load()
    assert [each.value for each in input_partitions(read)] == [7, 8]
    assert [each.value for each in input_partitions(read.unionAll(read.where("number > 7")))] == [7, 8, 7, 8]


def test_a_task_that_reads_no_python_source_is_refused_by_the_class_of_its_partition(spark: SparkSession) -> None:
    with pytest.raises(UnknownInputError, match="ShuffledRowRDDPartition"):
        input_partitions(spark.range(10).repartition(3))


def test_a_frames_rows_come_as_arrow_record_batches(spark: SparkSession) -> None:
    frame = spark.range(3)
    schema = arrow_schema(frame.schema, timezone="UTC")
    found = [pa.ipc.read_record_batch(pa.py_buffer(each), schema) for each in arrow_rdd(frame).collect()]
    assert sorted(pa.Table.from_batches(found)["id"].to_pylist()) == [0, 1, 2]


def test_arrow_record_batches_have_as_many_rows_as_their_setting_says(spark: SparkSession) -> None:
    apart = spark.newSession()
    apart.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2")
    assert len(arrow_rdd(apart.range(0, 5, 1, 1)).collect()) == 3


def test_spark_has_the_exceptions_by_which_a_batch_of_too_many_bytes_is_known(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    for name in ARROW_OVERFLOWS:
        assert jvm.java.lang.Class.forName(name).getName() == name


def test_a_batch_knows_its_query_and_the_checkpoint_what_was_planned_and_done(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoint"
    checkpoint = QueryCheckpoint(str(place), LocalFiles())
    assert (checkpoint.has_begun(), checkpoint.has_committed(), checkpoint.query_id()) == (False, False, None)
    with pytest.raises(FileNotFoundError, match="no batch 0"):
        checkpoint.offsets_of_last_source(0)
    seen: list[tuple[object, ...]] = []

    def write(batch: DataFrame, number: int) -> None:
        planned = json.loads(checkpoint.offsets_of_last_source(number))
        seen.append((query_id(batch), run_id(batch), planned, checkpoint.has_begun(), checkpoint.has_committed()))

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.txt").write_text("one\n")
    lines = spark.readStream.text(str(tmp_path / "in"))
    query = lines.writeStream.foreachBatch(write).option("checkpointLocation", str(place)).trigger(availableNow=True)
    started = query.start()
    assert started.awaitTermination(BATCH_SECONDS_MAX)
    assert seen == [(started.id, started.runId, {"logOffset": 0}, True, False)]
    assert checkpoint.has_committed() and checkpoint.query_id() == started.id
    assert query_id(spark.range(1)) is None and run_id(spark.range(1)) is None


def test_a_checkpoint_goes_on_whichever_way_its_files_are_written(spark: SparkSession, tmp_path: Path) -> None:
    place, given = tmp_path / "checkpoint", tmp_path / "in"
    given.mkdir()
    seen: list[list[str]] = []
    for number, files_by in enumerate((BY_FILE_CONTEXT, BY_FILE_SYSTEM, BY_FILE_CONTEXT, BY_FILE_SYSTEM)):
        apart = spark.newSession()
        apart.conf.set(FILES_BY, files_by)
        (given / f"{number}.txt").write_text(f"{number}\n")
        query = (
            apart.readStream.text(str(given))
            .writeStream.foreachBatch(lambda batch, _: seen.append([row.value for row in batch.collect()]))
            .option("checkpointLocation", str(place))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(BATCH_SECONDS_MAX)
        for kind in ("offsets", "commits"):
            has_checksum = (place / kind / f".{number}.crc").exists()
            assert has_checksum is (files_by == BY_FILE_CONTEXT), "else Spark writes it by something else"
    assert seen == [["0"], ["1"], ["2"], ["3"]]


def test_a_query_that_is_held_up_begins_no_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = spark.readStream.text(str(tmp_path / "in"))
    writer = lines.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    try:
        lock = query._jsq.streamingQuery().awaitProgressLock()
        with batches_held_up([query]):
            assert lock.isHeldByCurrentThread()
        assert not lock.isHeldByCurrentThread()
    finally:
        query.stop()


# -- expressions


def test_an_expression_is_read_as_spark_has_resolved_it(spark: SparkSession) -> None:
    frame = spark.sql("select cast(null as string) value, 1.5d number")
    made = frame.selectExpr("if(length(value) > 2, upper(value), 'x') made")
    value = CatalystExpression("AttributeReference", "string", value="value")
    longer = CatalystExpression(
        "GreaterThan",
        "boolean",
        (CatalystExpression("Length", "int", (value,)), CatalystExpression("Literal", "int", value=2)),
    )
    upper, other = (
        CatalystExpression("Upper", "string", (value,)),
        CatalystExpression("Literal", "string", value="x"),
    )
    assert resolved_expression(made) == CatalystExpression("If", "string", (longer, upper, other))
    nothing = resolved_expression(frame.selectExpr("cast(null as string) made"))
    assert (nothing.name, nothing.kind) == ("Cast", "string") and nothing.children[0].value is None
    (number,) = resolved_expression(frame.selectExpr("-number made")).children
    assert (number.name, number.kind) == ("AttributeReference", "double")


# -- the gateway


def test_pyspark_launches_its_jvm_by_what_it_is_given() -> None:
    from pyspark import java_gateway

    def refused(command: list[str], **_: Any) -> None:
        raise RuntimeError(Path(command[0]).name)

    with launched_by(refused), pytest.raises(RuntimeError, match="spark-submit"):
        java_gateway.launch_gateway()
    assert java_gateway.Popen is subprocess.Popen  # type: ignore[attr-defined]


def test_py4j_is_not_heard_as_itself_and_not_as_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    import py4j.clientserver

    root, own = logging.getLogger(), logging.getLogger("py4j.clientserver")
    monkeypatch.setattr(root, "filters", [])
    monkeypatch.setattr(logging.getLogger("py4j"), "level", logging.WARNING)
    own.manager._clear_cache()  # type: ignore[attr-defined]
    silence_py4j()
    as_root = logging.LogRecord("root", logging.ERROR, py4j.clientserver.__file__, 1, "a connection ended", None, None)
    ours = logging.LogRecord("root", logging.ERROR, __file__, 1, "something else", None, None)
    assert not own.isEnabledFor(logging.ERROR) and not root.filter(as_root) and root.filter(ours)
    own.manager._clear_cache()  # type: ignore[attr-defined]


def test_a_session_that_is_forgotten_is_nobodys(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    for owner, name in (
        (SparkContext, "_gateway"),
        (SparkContext, "_jvm"),
        (SparkContext, "_active_spark_context"),
        (type(spark), "_instantiatedSession"),
    ):
        assert getattr(owner, name) is not None
        monkeypatch.setattr(owner, name, getattr(owner, name))  # so that it is put back
    forget_gateway()
    assert type(spark).getActiveSession() is None and SparkContext._gateway is SparkContext._jvm is None


def test_a_java_error_is_told_by_its_first_line(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    with pytest.raises(Exception, match="getFirst") as caught:
        jvm.java.util.ArrayDeque().getFirst()
    assert java_reason(caught.value) == "java.util.NoSuchElementException"
    assert java_reason(ValueError("one\ntwo")) == "one"


# -- files


def test_files_are_written_read_listed_renamed_and_removed(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFileSystem(spark, tmp_path.as_uri(), {"ottla.private.api": "set"})
    assert spark.sparkContext._jsc.hadoopConfiguration().get("ottla.private.api") == "set"  # type: ignore[union-attr]
    one, two = f"{tmp_path}/a/one", f"{tmp_path}/b/two"
    assert files.names(f"{tmp_path}/a") == [] and files.sizes(f"{tmp_path}/a") == {} and files.size(one) is None
    files.create(one, "zwölf\0".encode())
    assert files.read(one) == "zwölf\0".encode() and files.size(one) == 7
    assert files.names(f"{tmp_path}/a") == ["one"] and files.sizes(str(tmp_path)) == {f"file:{one}": 7}
    with pytest.raises(FileExistsError, match="AlreadyExists"):
        files.create(one, b"")
    files.create(one, b"1", overwrite=True)
    files.make_folder_of(two)
    assert files.rename(one, two) and files.read(two) == b"1"
    assert files.local_path(f"file://{two}") == Path(two)
    assert files.delete(f"{tmp_path}/b") and not files.delete(f"{tmp_path}/b") and not Path(two).exists()
    with pytest.raises(OSError, match=r"cannot read .*/a/one: java\.io\.FileNotFoundException"):
        files.read(one)


def test_an_address_that_no_file_system_is_for_is_refused(spark: SparkSession) -> None:
    with pytest.raises(OSError, match=r"cannot reach nosuch://place.*nosuch"):
        HadoopFileSystem(spark, "nosuch://place")


# -- types and workers


def test_sparks_columns_are_arrows_and_back(spark: SparkSession) -> None:
    columns = spark.sql("select 'a' text, array(1) numbers, timestamp '2026-01-01 00:00:00' at").schema
    found = arrow_schema(columns, timezone="UTC")
    assert found.names == ["text", "numbers", "at"] and found.field("at").type == pa.timestamp("us", tz="UTC")
    assert [each.dataType for each in spark_schema(found)] == [each.dataType for each in columns]


def test_functions_travel_by_value_and_a_module_where_it_is_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import cloudpickle

    (tmp_path / "private_api_module.py").write_text("def three():\n    return 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = import_module("private_api_module")
    by_value(module)
    data, other = pickled(module.three), pickled(lambda: 4)
    cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
    monkeypatch.delitem(sys.modules, "private_api_module")
    monkeypatch.undo()
    assert (pickle.loads(data)(), pickle.loads(other)()) == (3, 4)


def test_the_forking_process_says_where_it_listens_and_ends_with_its_input() -> None:
    assert load_worker().__name__ == "pyspark.worker"
    words = "from ottla.spark.private_api.workers import fork_workers; fork_workers()"
    done = subprocess.run([sys.executable, "-c", words], input=b"", capture_output=True, timeout=60, check=False)
    assert 0 < int.from_bytes(done.stdout, "big") < 1 << 16
