"""Kafka Connect: the plugin API in Python, converters, transformations, and what the workers decide.

Plugins are written against this API. The packages `data`, `converters`, `transforms`, `storage`, `error_policy` and
`decisions` are pure. A `StandaloneHerder` hosts connectors and leaves their tasks to a `TaskRunner`; `ottla.connect.rest`
serves any `Herder` through the package `http`.
"""

from ottla.connect import client_overrides, converters, data, decisions, error_policy, storage, task_clients, validators
from ottla.connect.api import (
    Connector,
    ConnectorContext,
    Converter,
    ErrantRecordReporter,
    HeaderConverter,
    Measure,
    Offsets,
    Predicate,
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
    TransactionContext,
    Transformation,
)
from ottla.connect.batches import SourceBatch
from ottla.connect.columns import ColumnsConverter, ColumnsSinkTask, SinkColumns, SourceColumns
from ottla.connect.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigValue,
    Importance,
    Recommender,
    Width,
    config_infos,
    key_info,
)
from ottla.connect.connector_config import connector_def, enriched_def, validate_connector
from ottla.connect.data import Schema, SchemaAndValue, SchemaBuilder, SchemaType, Struct
from ottla.connect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConnectError,
    DataError,
    NotFoundError,
    RebalanceNeededError,
    RetriableError,
)
from ottla.connect.herder import (
    Created,
    ElsewhereError,
    GroupBusyError,
    Herder,
    SinkGroups,
    TaskOwner,
    TaskRunner,
    TaskStart,
)
from ottla.connect.java_regex import compile_java, replacement_of
from ottla.connect.log_context import ContextFilter, connector_context
from ottla.connect.offset_file import OffsetFile
from ottla.connect.plugins import InstalledPlugin, PluginKind, Plugins, discover, installed_entries
from ottla.connect.providers import Providers, providers_of
from ottla.connect.query_sink import (
    Files,
    QueryBatch,
    QueryFrame,
    QuerySink,
    QuerySinkContext,
    Reading,
    Recovered,
    Shape,
)
from ottla.connect.records import ConnectRecord, Header, SinkRecord, SourceRecord
from ottla.connect.sink_groups import ClientSinkGroups
from ottla.connect.standalone import StandaloneHerder
from ottla.connect.transforms.chain import Stage, apply_chain, chain_of
from ottla.connect.transforms.part import (
    ConfiguredPlugin,
    PartTransformation,
    copied_basics,
    of_key,
    of_value,
    require_map,
    require_struct,
)
from ottla.connect.version import STOCK_VERSION
from ottla.connect.worker_config import WorkerConfig, WorkerMode

__all__ = [
    "REQUIRED",
    "STOCK_VERSION",
    "AlreadyExistsError",
    "BadRequestError",
    "ClientSinkGroups",
    "ColumnsConverter",
    "ColumnsSinkTask",
    "ConfigDef",
    "ConfigKey",
    "ConfigValue",
    "ConfiguredPlugin",
    "ConnectError",
    "ConnectRecord",
    "Connector",
    "ConnectorContext",
    "ContextFilter",
    "Converter",
    "Created",
    "DataError",
    "ElsewhereError",
    "ErrantRecordReporter",
    "Files",
    "GroupBusyError",
    "Header",
    "HeaderConverter",
    "Herder",
    "Importance",
    "InstalledPlugin",
    "Measure",
    "NotFoundError",
    "OffsetFile",
    "Offsets",
    "PartTransformation",
    "PluginKind",
    "Plugins",
    "Predicate",
    "Providers",
    "QueryBatch",
    "QueryFrame",
    "QuerySink",
    "QuerySinkContext",
    "Reading",
    "RebalanceNeededError",
    "Recommender",
    "Recovered",
    "RetriableError",
    "Schema",
    "SchemaAndValue",
    "SchemaBuilder",
    "SchemaType",
    "Shape",
    "SinkColumns",
    "SinkConnector",
    "SinkGroups",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceBatch",
    "SourceColumns",
    "SourceConnector",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "Stage",
    "StandaloneHerder",
    "Struct",
    "TaskOwner",
    "TaskRunner",
    "TaskStart",
    "TransactionContext",
    "Transformation",
    "Width",
    "WorkerConfig",
    "WorkerMode",
    "apply_chain",
    "chain_of",
    "client_overrides",
    "compile_java",
    "config_infos",
    "connector_context",
    "connector_def",
    "converters",
    "copied_basics",
    "data",
    "decisions",
    "discover",
    "enriched_def",
    "error_policy",
    "installed_entries",
    "key_info",
    "of_key",
    "of_value",
    "providers_of",
    "replacement_of",
    "require_map",
    "require_struct",
    "storage",
    "task_clients",
    "validate_connector",
    "validators",
]
