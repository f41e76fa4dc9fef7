"""Kafka Connect: the plugin API in Python, converters, transformations, and what the workers decide.

Plugins are written against this face. The packages `data`, `converters`, `transforms`, `storage`, `handling` and `herding`
are pure. A `StandaloneHerder` hosts connectors and leaves their tasks to a `TaskRunner`; `ottla.connect.rest` serves any
`Herder` through the room `http`.
"""

from ottla.connect import data, handling, herding, storage
from ottla.connect.api import (
    Connector,
    ConnectorContext,
    Converter,
    ErrantRecordReporter,
    HeaderConverter,
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
from ottla.connect.offset_file import OffsetFile
from ottla.connect.plugins import InstalledPlugin, PluginKind, Plugins, discover
from ottla.connect.providers import Providers, providers_of
from ottla.connect.records import ConnectRecord, Header, SinkRecord, SourceRecord
from ottla.connect.standalone import StandaloneHerder
from ottla.connect.transforms.chain import Stage, apply_chain, chain_of

__all__ = [
    "REQUIRED",
    "AlreadyExistsError",
    "BadRequestError",
    "ColumnsConverter",
    "ColumnsSinkTask",
    "ConfigDef",
    "ConfigKey",
    "ConfigValue",
    "ConnectError",
    "ConnectRecord",
    "Connector",
    "ConnectorContext",
    "Converter",
    "Created",
    "DataError",
    "ElsewhereError",
    "ErrantRecordReporter",
    "GroupBusyError",
    "Header",
    "HeaderConverter",
    "Herder",
    "Importance",
    "InstalledPlugin",
    "NotFoundError",
    "OffsetFile",
    "Offsets",
    "PluginKind",
    "Plugins",
    "Predicate",
    "Providers",
    "RebalanceNeededError",
    "Recommender",
    "RetriableError",
    "Schema",
    "SchemaAndValue",
    "SchemaBuilder",
    "SchemaType",
    "SinkColumns",
    "SinkConnector",
    "SinkGroups",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
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
    "apply_chain",
    "chain_of",
    "config_infos",
    "connector_def",
    "data",
    "discover",
    "enriched_def",
    "handling",
    "herding",
    "key_info",
    "providers_of",
    "storage",
    "validate_connector",
]
