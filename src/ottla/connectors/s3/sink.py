"""The S3 sink: topics as objects of a bucket, each record in exactly one of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.base import ConfigError, TopicPartition
from ottla.config import ConfigType
from ottla.connect import (
    ConfigDef,
    ConfigValue,
    ConnectError,
    DataError,
    Importance,
    Offsets,
    RetriableError,
    SinkColumns,
    SinkConnector,
    SinkRecord,
    SinkTask,
    validators,
)
from ottla.connectors.s3.client import client_keys, expecting, made_client, require_boto, upload_arguments
from ottla.connectors.s3.gzip_file import GzipFile
from ottla.connectors.s3.uploads import Bucket, Tagging
from ottla.connectors.storage import (
    Key,
    TopicWriter,
    WriterPlan,
    define,
    format_name,
    offset_of,
    storage_keys,
    writer_plan,
)

__all__ = ["S3SinkConnector", "S3SinkTask", "checked_together"]

log = logging.getLogger(__name__)

STORAGE = "io.confluent.connect.s3.storage.S3Storage"
PART_BYTES_MIN = 5 * 1024 * 1024
"""What S3 wants a part to have at least, but for the last."""

COMPRESSIBLE = ("Json", "ByteArray", "String")


def _storage_rule(name: str, value: Any) -> None:
    if value is None or str(value).rpartition(".")[2] != "S3Storage":
        raise ConfigError(name, value, f"expected {STORAGE}")


TAGS_MAX = 7
"""An object has ten at most, and three are its offsets and its count."""


def _tags_rule(name: str, value: Any) -> None:
    if len(value) > TAGS_MAX or any(":" not in each or not each.partition(":")[0].strip() for each in value):
        raise ConfigError(name, value, f"expected key:value,…, {TAGS_MAX} at most")


_KEYS = (
    Key(
        "storage.class",
        ConfigType.CLASS,
        STORAGE,
        Importance.HIGH,
        "The store: there is one.",
        validators.Lambda(_storage_rule, STORAGE),
    ),
    Key(
        "s3.part.size",
        ConfigType.INT,
        26_214_400,
        Importance.HIGH,
        "How many bytes a part of a large object has; smaller objects are sent at once.",
        validators.Range(PART_BYTES_MIN, (1 << 31) - 1),
    ),
    Key(
        "s3.compression.type",
        ConfigType.STRING,
        "none",
        Importance.LOW,
        "How JSON, bytes and text are compressed; Avro and Parquet have codecs of their own.",
        validators.ValidString("none", "gzip"),
    ),
    Key(
        "s3.compression.level",
        ConfigType.INT,
        -1,
        Importance.LOW,
        "How hard gzip tries, 0 to 9; -1 for its own choice.",
        validators.Range(-1, 9),
    ),
    Key("s3.acl.canned", ConfigType.STRING, None, Importance.LOW, "A canned access control list for new objects."),
    Key("s3.ssea.name", ConfigType.STRING, "", Importance.LOW, "Encryption by the server: AES256 or aws:kms."),
    Key("s3.sse.kms.key.id", ConfigType.STRING, "", Importance.LOW, "The key that aws:kms encrypts with."),
    Key("s3.sse.customer.key", ConfigType.PASSWORD, "", Importance.LOW, "A key of 32 bytes to encrypt with (SSE-C)."),
    Key(
        "s3.object.tagging",
        ConfigType.BOOLEAN,
        False,
        Importance.LOW,
        "Whether objects are tagged with startOffset, endOffset and recordCount.",
    ),
    Key(
        "s3.object.tagging.key.value.pairs",
        ConfigType.LIST,
        "",
        Importance.LOW,
        "Further tags of each object: key:value, seven at most.",
        validators.Lambda(_tags_rule, "key:value,…, seven at most"),
    ),
    Key(
        "s3.object.behavior.on.tagging.error",
        ConfigType.STRING,
        "ignore",
        Importance.LOW,
        "Whether an object that cannot be tagged fails the task.",
        validators.ValidString("ignore", "fail"),
    ),
)


def _definition() -> ConfigDef:
    found = ConfigDef()
    storage_keys(found)
    client_keys(found)
    define(found, "S3 objects", _KEYS)
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _plan(settings: Mapping[str, Any]) -> WriterPlan:
    """Return how records become objects; raises ConfigError, and ConnectError for a library that is missing."""
    plan = writer_plan(settings, _now_ms)
    if settings["s3.compression.type"] == "gzip":
        for key, form in (
            ("format.class", plan.value),
            ("keys.format.class", plan.keys),
            ("headers.format.class", plan.headers),
        ):
            if form is not None and format_name(settings[key]) in COMPRESSIBLE:
                form.extension += ".gz"
    return plan


def _tagging(settings: Mapping[str, Any]) -> Tagging | None:
    if not settings["s3.object.tagging"]:
        return None
    pairs = (each.partition(":") for each in settings["s3.object.tagging.key.value.pairs"])
    more = {key.strip(): value.strip() for key, _, value in pairs}
    return Tagging(more, must=settings["s3.object.behavior.on.tagging.error"] == "fail")


class S3SinkTask(SinkTask):
    """Writes the topic partitions that it is given. Offsets are committed up to the last object that is stored."""

    def start(self, props: Mapping[str, str]) -> None:
        """Begin; raises ConfigError, ConnectError for a bucket that is not there."""
        self.props = dict(props)
        settings = S3SinkConnector.config_def.parse(props)
        self._plan = _plan(settings)
        self._backoff_ms: int = settings["retry.backoff.ms"]
        client = made_client(settings)
        _require_bucket(client, settings["s3.bucket.name"])
        whole, parts = upload_arguments(settings)
        level = settings["s3.compression.level"] if settings["s3.compression.type"] == "gzip" else None
        self._bucket = Bucket(
            client,
            settings["s3.bucket.name"],
            part_bytes=settings["s3.part.size"],
            whole=whole,
            parts=parts,
            tagging=_tagging(settings),
            wrap=None if level is None else lambda file: GzipFile(file, level) if file.key.endswith(".gz") else file,
        )
        self._writers: dict[TopicPartition, TopicWriter] = {}

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Begin with partitions, each at its committed offset."""
        for place in partitions:
            self._writers[place] = self._writer(place)

    def _writer(self, place: TopicPartition) -> TopicWriter:
        return TopicWriter(self._plan, self._bucket, place, now_ms=_now_ms, report=self._report)

    def _report(self, record: SinkRecord, error: DataError) -> None:
        reporter = self.context.errant_records
        if reporter is None:
            where = f"{record.original_topic}-{record.original_partition} at offset {record.original_offset}"
            raise ConnectError(f"The record of {where} cannot be written: {error}") from error
        reporter.report(record, error)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records; RetriableError where the store does not take earlier ones now."""
        begun: dict[TopicWriter, int] = {}
        try:
            self._tick()
            for record in records:
                writer = self._of(record.original_topic or record.topic or "", record.original_partition or 0)
                if writer not in begun:
                    begun[writer] = offset_of(record)
                    writer.begin(begun[writer])
                writer.put(record)
        except RetriableError:
            self._break_off(begun)
            raise

    def put_columns(self, columns: SinkColumns) -> None:
        """Take rows of one topic partition."""
        begun: dict[TopicWriter, int] = {}
        try:
            self._tick()
            if len(columns.offsets):
                writer = self._of(columns.topic, columns.partition)
                begun[writer] = columns.offsets[0].as_py()
                writer.begin(begun[writer])
                writer.put_columns(columns)
        except RetriableError:
            self._break_off(begun)
            raise

    def _break_off(self, begun: Mapping[TopicWriter, int]) -> None:
        """Ask for a batch again a while later; the writers that have begun with it skip what they have of it."""
        for writer, first in begun.items():
            writer.break_off(first)
        self.context.timeout(self._backoff_ms)

    def _tick(self) -> None:
        for writer in self._writers.values():
            writer.tick()

    def _of(self, topic: str, partition: int) -> TopicWriter:
        place = TopicPartition(topic, partition)
        writer = self._writers.get(place)
        if writer is None:
            writer = self._writers[place] = self._writer(place)
        return writer

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Return the offsets behind the last objects that are stored."""
        try:
            self._tick()
        except RetriableError as error:
            log.warning("Objects that could not be stored yet are tried again: %s", error)
        found: dict[TopicPartition, int] = {}
        for place, consumed in offsets.items():
            writer = self._writers.get(place)
            stored = consumed if writer is None else writer.stored_offset(consumed)
            if stored is not None:
                found[place] = stored
        return found

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Throw away what no object has yet: whoever gets the partitions begins at the committed offsets."""
        for place in partitions:
            writer = self._writers.pop(place, None)
            if writer is not None:
                writer.close()

    def stop(self) -> None:
        """End."""
        writers = getattr(self, "_writers", {})
        self.close(list(writers))
        bucket = getattr(self, "_bucket", None)
        if bucket is not None:
            bucket.close()


def _require_bucket(client: Any, name: str) -> None:
    """Raise ConnectError for a bucket that is not there; whoever may only write to it cannot ask, and is let through."""
    from botocore.exceptions import ClientError

    try:
        expecting(lambda: f"Cannot look for the bucket {name}", lambda: client.head_bucket(Bucket=name))
    except ConnectError as error:
        cause = error.__cause__
        status = cause.response["ResponseMetadata"]["HTTPStatusCode"] if isinstance(cause, ClientError) else 0
        if status == 404:
            raise ConnectError(
                f"s3.bucket.name={name}: there is no bucket of that name where store.url leads"
            ) from error
        if status != 403:
            raise
        log.warning("Not allowed to look whether the bucket %s exists; going on", name)


class S3SinkConnector(SinkConnector):
    """Writes topics to a bucket of S3: JSON, Avro, Parquet or bytes, exactly once by the objects' names."""

    java_name = "io.confluent.connect.s3.S3SinkConnector"
    aliases = ("S3Sink",)
    version = "1.0"
    config_def = _definition()
    task_class = S3SinkTask

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong with a configuration, keys that need one another and missing libraries included."""
        return checked_together(self.config_def, props, _plan)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return one configuration for each task: the group divides the partitions among them."""
        return [self.props] * tasks_max


def checked_together(definition: ConfigDef, props: Mapping[str, str | None], plan: Any) -> dict[str, ConfigValue]:
    """Return what validation finds of the keys, and where they are right one by one, what `plan` says of them together."""
    found = definition.validate(props)
    if any(each.errors for each in found.values()):
        return found
    try:
        require_boto()
        settings = definition.parse({name: value for name, value in props.items() if value is not None})
        made_client(settings)
        plan(settings)
    except ConfigError as error:
        found[error.key if error.key in found else "s3.bucket.name"].errors.append(str(error))
    except ConnectError as error:
        found["format.class" if "Format" in str(error) else "s3.bucket.name"].errors.append(str(error))
    return found
