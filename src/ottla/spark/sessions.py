"""A Spark session that suits a pipeline between topics on one machine."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from ottla.base import ConfigError
from ottla.spark.class_archive import class_archive_options
from ottla.spark.cluster_protection import check_cluster, configured, lacking
from ottla.spark.fork_server import forked_python
from ottla.spark.java import find_java
from ottla.spark.masters import local_slots
from ottla.spark.phases import phase
from ottla.spark.private_api.callbacks import answer_callbacks_by_poll
from ottla.spark.private_api.checkpoints import BY_FILE_SYSTEM, FILES_BY
from ottla.spark.private_api.gateway import ask_numpy_alone
from ottla.spark.private_api.local_files import quick_local_files
from ottla.spark.private_api.sessions import has_context, is_classic
from ottla.spark.requirements import check_spark

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["let_go", "register", "session", "settings_of"]

MASTER_DEFAULT = "local[*]"
PARTITIONS_ELSEWHERE = 2
"""Partitions of a shuffle on a cluster, whose slots nobody knows: as good a start as any."""
LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
JVM_OPTIONS = "spark.driver.extraJavaOptions"
SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # What goes from the JVM to a Python worker at once. Arrow counts the bytes of a column in 31 bits, and the JVM has to
    # hold them: 50,000 rows of 43 KB were more. Spark sums up the bytes after each row and, for a list column, writes the
    # offsets behind its last list anew, so that rows with null for headers cost more the more of them a batch has (400,000:
    # 7.9 s with 10,000 in a batch, 1.9 s with 2,000, 0.2 s without a bound).
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.worker.reuse": "true",
    # Sources say nothing of it and functions do, and Spark keeps Python workers apart by what their environment says: with
    # Spark's own `true` a query with both starts two daemons, and imports everything twice.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Over TCP each small answer of a Python worker waited for a delayed acknowledgement, 40 ms a task (measured: a task that
    # does nothing took 85 ms, and 48 ms so).
    "spark.python.unix.domain.socket.enabled": "true",
    # Spark waits so long for a Python worker to come, and for whoever asked to take an answer: 15 s of its own were over on
    # a machine with other work, and the batch with them.
    "spark.python.authenticate.socketTimeout": "120s",
    # Spark's own pattern, and what else of a client's options is a secret.
    "spark.redaction.regex": "(?i)secret|password|passphrase|token|access[.]?key|jaas|keystore[.]key",
    "spark.sql.streaming.metricsEnabled": "false",
    # How long stopping a query waits for its batch. Spark's own is for ever: a batch whose Python function hangs would have
    # kept an application from ending.
    "spark.sql.streaming.stopTimeout": "120s",
}
"""What a session of ours sets unless told otherwise."""
STREAM_ENVIRONMENT: Mapping[str, str] = {
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_LOCAL_DIRS": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""What Spark puts into a data source's environment when a stream starts: into one HashMap for all streams of a session.

Two streams that start at once may both add a key, after which the map cannot be deserialized and every batch of every
query fails (`java.io.OptionalDataException`, seen under kills). Keys that are there from the start are not added; Spark
replaces the values.
"""
LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""What is added for a local master, whose driver nobody else has to reach."""
ALONE_SETTINGS: Mapping[str, str] = {"spark.authenticate": "true"}
"""What is added where driver and executor are one process.

Its ports take Java objects of whoever connects: with this, of who knows a secret that Spark makes for the session. For other
masters the secret is the operator's.
"""
CHECKPOINT_PLACES = (
    "spark.hadoop.fs.defaultFS",
    "spark.hadoop.fs.default.name",
    "spark.sql.streaming.checkpointLocation",
)
"""Settings that may name another file system for checkpoints than this machine's."""
HADOOP_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR")
"""Variables of the environment that name folders whose files may."""
YARN_SETTINGS: Mapping[str, str] = {"spark.python.unix.domain.socket.enabled": "false"}
"""What is different on YARN: a container's folder, in which sockets would be, has a longer name than they may have."""
SOURCE_MODULES = (
    *("pyspark_ottla", "ottla.spark.source.reader", "ottla.spark.source.writer"),
    "ottla.spark.first_array",
)
"""What Python processes import that read and write topics."""


def session(
    name: str = "ottla",
    *,
    master: str = MASTER_DEFAULT,
    settings: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
    registered: bool = True,
    secured: str | None = None,
    preload: Sequence[str] = SOURCE_MODULES,
) -> SparkSession:
    """Return a Spark session with `format("ottla")`, or the one that is there already; `let_go` ends its use.

    `master` is Spark's; `settings` override ours. Python workers run this interpreter, or `spark.pyspark.python`. Raises
    SparkMissingError with one line that says what to install where Spark's packages or its Java are not there. Registering
    `format("ottla")` makes Spark load its SQL engine, which takes a second; without it, Spark does so when it is first
    used, and finds `pyspark_ottla` by its name.

    `preload` are the modules that Python processes of a local session have imported when they begin (`fork_server`).

    `secured` names what is secured of what will use the session: then a cluster whose own connections are not is refused
    with ConfigError.
    """
    if (known := configured(settings or {})) is not None:
        check_cluster(master, secured, known.get)
    check_spark()
    java = find_java()
    assert java is not None, "it was looked for"
    os.environ["JAVA_HOME"] = str(java.home)
    if python := (settings or {}).get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python  # only spark-submit reads the setting
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    is_local = master.startswith("local")
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with phase("importing PySpark (1 of 3)"):
        from pyspark.sql import SparkSession

    chosen = {
        **settings_for(master),
        **(checkpoint_settings(settings or {}) if is_local else {}),
        "spark.sql.shuffle.partitions": str(local_slots(master) or PARTITIONS_ELSEWHERE),
        **(settings or {}),
    }
    options = [chosen.get(JVM_OPTIONS, ""), *class_archive_options(java, _jars(), with_sql=registered)]
    options += logging_options(chosen.get(JVM_OPTIONS, ""), os.environ)
    if any(options):
        chosen[JVM_OPTIONS] = " ".join(each for each in options if each)
    # Before the level below can be set, the JVM has started; log4j takes this one from the start.
    chosen.setdefault("spark.log.level", log_level)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with phase("starting Spark's JVM (2 of 3)"):
        spark = _taken(builder, preload if is_local else None)
    try:
        check_cluster(master, secured, spark.sparkContext.getConf().get)
    except ConfigError:
        let_go(spark)
        raise
    with phase("loading Spark's SQL (3 of 3)"):
        spark.sparkContext.setLogLevel(log_level)
        quick_local_files(spark)
        answer_callbacks_by_poll()
        if registered:
            register(spark)
    return spark


def settings_for(master: str) -> dict[str, str]:
    """Return what a session of ours sets with a master, unless told otherwise."""
    if master.startswith("local"):
        alone = ALONE_SETTINGS if master == "local" or master.startswith("local[") else {}
        return {**SETTINGS, **LOCAL_SETTINGS, **alone}
    return {**SETTINGS, **(YARN_SETTINGS if master.startswith("yarn") else {})}


def checkpoint_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return how a local session writes checkpoints: without a process for each file, measured 90 ms a micro-batch.

    Nothing where settings, or the environment, may name another file system than this machine's: see `BY_FILE_SYSTEM`.
    """
    named_elsewhere = any(urlsplit(settings.get(each, "")).scheme not in ("", "file") for each in CHECKPOINT_PLACES)
    may_be = any(os.environ.get(each) for each in HADOOP_FOLDERS)
    return {} if named_elsewhere or may_be else {FILES_BY: BY_FILE_SYSTEM}


def logging_options(given: str, environment: Mapping[str, str]) -> list[str]:
    """Return the JVM's option that names our configuration of log4j; none where somebody has one of their own.

    Without any Spark tells on standard error which one it takes, and warns before a level can be set.
    """
    folders = [environment.get("SPARK_CONF_DIR"), environment.get("SPARK_HOME") and f"{environment['SPARK_HOME']}/conf"]
    owns = any(each and any(Path(each).glob("log4j2.*")) for each in folders)
    if owns or "log4j" in given or " " in str(LOG_CONFIGURATION):
        return []
    return [f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}"]


_users: WeakKeyDictionary[SparkContext, int] = WeakKeyDictionary()
"""How many use a context that `session` has returned. A process has one at most, whoever asks."""
_counting = threading.Lock()


def _taken(builder: SparkSession.Builder, preload: Sequence[str] | None) -> SparkSession:
    """Return the process's session, and count one user more; who had made it before without us is one, too."""
    ask_numpy_alone()
    with _counting:
        is_there = has_context()
        with nullcontext() if is_there or preload is None else forked_python(preload):
            spark = builder.getOrCreate()
        context = spark.sparkContext
        _users[context] = _users.get(context, int(is_there)) + 1
    return spark


def let_go(spark: SparkSession) -> None:
    """Stop a session that `session` has returned, once for each time; not before the last of its users lets it go.

    Spark has one session in a process: two applications in it, or an application in a notebook, get the same.
    """
    if not is_classic(spark):
        spark.stop()
        return
    with _counting:
        context = spark.sparkContext
        _users[context] = left = _users.get(context, 1) - 1
        if left <= 0:
            spark.stop()


def register(spark: SparkSession, *, checked: bool = False) -> None:
    """Register `format("ottla")` with a session: needed where its options secure connections to brokers.

    Spark finds `pyspark_ottla` by itself, but nothing of the session is known then. Registered, it refuses such options on a
    cluster whose own connections are not protected, unless that was `checked` by who calls this.
    """
    from ottla.spark.source.datasource import source_for

    if is_classic(spark):
        answer_callbacks_by_poll()
        spark.sparkContext.environment.update(STREAM_ENVIRONMENT)
    value = settings_of(spark)
    spark.dataSource.register(source_for("" if checked else lacking(value("spark.master") or "a cluster", value)))


def settings_of(spark: SparkSession) -> Callable[[str], str | None]:
    """Return what tells a session's settings: its context's, and of a session of Spark Connect the server's."""
    if is_classic(spark):
        return spark.sparkContext.getConf().get
    return lambda key: spark.conf.get(key, None)


def _jars() -> Path:
    """Return the folder of Spark's jars: of the Spark that the environment names, or of PySpark's own."""
    import pyspark

    home = os.environ.get("SPARK_HOME")
    return (Path(home) if home else Path(pyspark.__file__).parent) / "jars"
