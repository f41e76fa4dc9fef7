"""The keys that every connector has: their types, defaults, groups and documentation, as Kafka 4.3 shows them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMON_KEYS", "SINK_KEYS", "SOURCE_KEYS", "ConnectorKey"]


class ConnectorKey(NamedTuple):
    """One key."""

    name: str
    type: str
    default: str | None
    required: bool
    importance: str
    group: str
    order: int
    width: str
    display_name: str
    doc: str


COMMON_KEYS: tuple[ConnectorKey, ...] = (
    ConnectorKey(
        "name",
        "STRING",
        None,
        True,
        "HIGH",
        "Common",
        1,
        "MEDIUM",
        "Connector name",
        "Globally unique name to use for this connector.",
    ),
    ConnectorKey(
        "connector.class",
        "STRING",
        None,
        True,
        "HIGH",
        "Common",
        2,
        "LONG",
        "Connector class",
        "Name or alias of the class for this connector. Must be a subclass of "
        "org.apache.kafka.connect.connector.Connector. If the connector is "
        "org.apache.kafka.connect.file.FileStreamSinkConnector, you can either specify this full name,  "
        'or use "FileStreamSink" or "FileStreamSinkConnector" to make the configuration a bit shorter',
    ),
    ConnectorKey(
        "connector.plugin.version",
        "STRING",
        None,
        False,
        "MEDIUM",
        "Common",
        3,
        "MEDIUM",
        "Connector version",
        "Version of the connector.",
    ),
    ConnectorKey(
        "tasks.max",
        "INT",
        "1",
        False,
        "HIGH",
        "Common",
        4,
        "SHORT",
        "Tasks max",
        "Maximum number of tasks to use for this connector.",
    ),
    ConnectorKey(
        "tasks.max.enforce",
        "BOOLEAN",
        "true",
        False,
        "LOW",
        "Common",
        5,
        "SHORT",
        "Enforce tasks max",
        "(Deprecated) Whether to enforce that the tasks.max property is respected by the connector. By "
        "default, connectors that generate too many tasks will fail, and existing sets of tasks that "
        "exceed the tasks.max property will also be failed. If this property is set to false, then "
        "connectors will be allowed to generate more than the maximum number of tasks, and existing sets"
        " of tasks that exceed the tasks.max property will be allowed to run. This property is "
        "deprecated and will be removed in an upcoming major release.",
    ),
    ConnectorKey(
        "key.converter",
        "CLASS",
        None,
        False,
        "LOW",
        "Common",
        6,
        "SHORT",
        "Key converter class",
        "Converter class used to convert between Kafka Connect format and the serialized form that is "
        "written to Kafka. This controls the format of the keys in messages written to or read from "
        "Kafka, and since this is independent of connectors it allows any connector to work with any "
        "serialization format. Examples of common formats include JSON and Avro.",
    ),
    ConnectorKey(
        "key.converter.plugin.version",
        "STRING",
        None,
        False,
        "LOW",
        "Common",
        7,
        "SHORT",
        "Key converter version",
        "Version of the key converter.",
    ),
    ConnectorKey(
        "value.converter",
        "CLASS",
        None,
        False,
        "LOW",
        "Common",
        8,
        "SHORT",
        "Value converter class",
        "Converter class used to convert between Kafka Connect format and the serialized form that is "
        "written to Kafka. This controls the format of the values in messages written to or read from "
        "Kafka, and since this is independent of connectors it allows any connector to work with any "
        "serialization format. Examples of common formats include JSON and Avro.",
    ),
    ConnectorKey(
        "value.converter.plugin.version",
        "STRING",
        None,
        False,
        "LOW",
        "Common",
        9,
        "SHORT",
        "Value converter version",
        "Version of the value converter.",
    ),
    ConnectorKey(
        "header.converter",
        "CLASS",
        None,
        False,
        "LOW",
        "Common",
        10,
        "SHORT",
        "Header converter class",
        "HeaderConverter class used to convert between Kafka Connect format and the serialized form that"
        " is written to Kafka. This controls the format of the header values in messages written to or "
        "read from Kafka, and since this is independent of connectors it allows any connector to work "
        "with any serialization format. Examples of common formats include JSON and Avro. By default, "
        "the SimpleHeaderConverter is used to serialize header values to strings and deserialize them by"
        " inferring the schemas.",
    ),
    ConnectorKey(
        "header.converter.plugin.version",
        "STRING",
        None,
        False,
        "LOW",
        "Common",
        11,
        "SHORT",
        "Header converter version",
        "Version of the header converter.",
    ),
    ConnectorKey(
        "transforms",
        "LIST",
        "",
        False,
        "LOW",
        "Transforms",
        12,
        "LONG",
        "Transforms",
        "Aliases for the transformations to be applied to records.",
    ),
    ConnectorKey(
        "predicates",
        "LIST",
        "",
        False,
        "LOW",
        "Predicates",
        13,
        "LONG",
        "Predicates",
        "Aliases for the predicates used by transformations.",
    ),
    ConnectorKey(
        "config.action.reload",
        "STRING",
        "restart",
        False,
        "LOW",
        "Common",
        14,
        "MEDIUM",
        "Reload Action",
        "The action that Connect should take on the connector when changes in external configuration "
        "providers result in a change in the connector's configuration properties. A value of 'none' "
        "indicates that Connect will do nothing. A value of 'restart' indicates that Connect should "
        "restart/reload the connector with the updated configuration properties.The restart may actually"
        " be scheduled in the future if the external configuration provider indicates that a "
        "configuration value will expire in the future.",
    ),
    ConnectorKey(
        "errors.retry.timeout",
        "LONG",
        "0",
        False,
        "MEDIUM",
        "Error Handling",
        1,
        "MEDIUM",
        "Retry Timeout for Errors",
        "The maximum duration in milliseconds that a failed operation will be reattempted. The default "
        "is 0, which means no retries will be attempted. Use -1 for infinite retries.",
    ),
    ConnectorKey(
        "errors.retry.delay.max.ms",
        "LONG",
        "60000",
        False,
        "MEDIUM",
        "Error Handling",
        2,
        "MEDIUM",
        "Maximum Delay Between Retries for Errors",
        "The maximum duration in milliseconds between consecutive retry attempts. Jitter will be added "
        "to the delay once this limit is reached to prevent thundering herd issues.",
    ),
    ConnectorKey(
        "errors.tolerance",
        "STRING",
        "none",
        False,
        "MEDIUM",
        "Error Handling",
        3,
        "SHORT",
        "Error Tolerance",
        "Behavior for tolerating errors during connector operation. 'none' is the default value and "
        "signals that any error will result in an immediate connector task failure; 'all' changes the "
        "behavior to skip over problematic records.",
    ),
    ConnectorKey(
        "errors.log.enable",
        "BOOLEAN",
        "false",
        False,
        "MEDIUM",
        "Error Handling",
        4,
        "SHORT",
        "Log Errors",
        "If true, write each error and the details of the failed operation and problematic record to the"
        " Connect application log. This is 'false' by default, so that only errors that are not "
        "tolerated are reported.",
    ),
    ConnectorKey(
        "errors.log.include.messages",
        "BOOLEAN",
        "false",
        False,
        "MEDIUM",
        "Error Handling",
        5,
        "SHORT",
        "Log Error Details",
        "Whether to include in the log the Connect record that resulted in a failure. For sink records, "
        "the topic, partition, offset, and timestamp will be logged. For source records, the key and "
        "value (and their schemas), all headers, and the timestamp, Kafka topic, Kafka partition, source"
        " partition, and source offset will be logged. This is 'false' by default, which will prevent "
        "record keys, values, and headers from being written to log files.",
    ),
)
"""What sources and sinks have."""

SOURCE_KEYS: tuple[ConnectorKey, ...] = (
    ConnectorKey(
        "topic.creation.groups",
        "LIST",
        "",
        False,
        "LOW",
        "Topic Creation",
        1,
        "LONG",
        "Topic Creation Groups",
        "Groups of configurations for topics created by source connectors",
    ),
    ConnectorKey(
        "exactly.once.support",
        "STRING",
        "requested",
        False,
        "MEDIUM",
        "Exactly Once Support",
        2,
        "SHORT",
        "Exactly once support",
        'Permitted values are requested, required. If set to "required", forces a preflight check for '
        "the connector to ensure that it can provide exactly-once semantics with the given "
        "configuration. Some connectors may be capable of providing exactly-once semantics but not "
        "signal to Connect that they support this; in that case, documentation for the connector should "
        "be consulted carefully before creating it, and the value for this property should be set to "
        '"requested". Additionally, if the value is set to "required" but the worker that performs '
        "preflight validation does not have exactly-once support enabled for source connectors, requests"
        " to create or validate the connector will fail.",
    ),
    ConnectorKey(
        "transaction.boundary",
        "STRING",
        "poll",
        False,
        "MEDIUM",
        "Exactly Once Support",
        3,
        "SHORT",
        "Transaction Boundary",
        "Permitted values are: poll, interval, connector. If set to 'poll', a new producer transaction "
        "will be started and committed for every batch of records that each task from this connector "
        "provides to Connect. If set to 'connector', relies on connector-defined transaction boundaries;"
        " note that not all connectors are capable of defining their own transaction boundaries, and in "
        "that case, attempts to instantiate a connector with this value will fail. Finally, if set to "
        "'interval', commits transactions only after a user-defined time interval has passed.",
    ),
    ConnectorKey(
        "transaction.boundary.interval.ms",
        "LONG",
        None,
        False,
        "LOW",
        "Exactly Once Support",
        4,
        "SHORT",
        "Transaction boundary interval",
        "If 'transaction.boundary' is set to 'interval', determines the interval for producer "
        "transaction commits by connector tasks. If unset, defaults to the value of the worker-level "
        "'offset.flush.interval.ms' property. It has no effect if a different transaction.boundary is "
        "specified.",
    ),
    ConnectorKey(
        "offsets.storage.topic",
        "STRING",
        None,
        False,
        "LOW",
        "offsets.topic",
        1,
        "LONG",
        "Offsets topic",
        "The name of a separate offsets topic to use for this connector. If empty or not specified, the "
        "worker’s global offsets topic name will be used. If specified, the offsets topic will be "
        "created if it does not already exist on the Kafka cluster targeted by this connector (which may"
        " be different from the one used for the worker's global offsets topic if the bootstrap.servers "
        "property of the connector's producer has been overridden from the worker's). Only applicable in"
        " distributed mode; in standalone mode, setting this property will have no effect.",
    ),
)
"""What sources have besides."""

SINK_KEYS: tuple[ConnectorKey, ...] = (
    ConnectorKey(
        "topics",
        "LIST",
        "",
        False,
        "HIGH",
        "Common",
        4,
        "LONG",
        "Topics",
        "List of topics to consume, separated by commas",
    ),
    ConnectorKey(
        "topics.regex",
        "STRING",
        "",
        False,
        "HIGH",
        "Common",
        4,
        "LONG",
        "Topics regex",
        "Regular expression giving topics to consume. Under the hood, the regex is compiled to a "
        "<code>java.util.regex.Pattern</code>. Only one of topics or topics.regex should be specified.",
    ),
    ConnectorKey(
        "errors.deadletterqueue.topic.name",
        "STRING",
        "",
        False,
        "MEDIUM",
        "Error Handling",
        6,
        "MEDIUM",
        "Dead Letter Queue Topic Name",
        "The name of the topic to be used as the dead letter queue (DLQ) for messages that result in an "
        "error when processed by this sink connector, or its transformations or converters. The topic "
        "name is blank by default, which means that no messages are to be recorded in the DLQ.",
    ),
    ConnectorKey(
        "errors.deadletterqueue.topic.replication.factor",
        "SHORT",
        "3",
        False,
        "MEDIUM",
        "Error Handling",
        7,
        "MEDIUM",
        "Dead Letter Queue Topic Replication Factor",
        "Replication factor used to create the dead letter queue topic when it doesn't already exist.",
    ),
    ConnectorKey(
        "errors.deadletterqueue.context.headers.enable",
        "BOOLEAN",
        "false",
        False,
        "MEDIUM",
        "Error Handling",
        8,
        "MEDIUM",
        "Enable Error Context Headers",
        "If true, add headers containing error context to the messages written to the dead letter queue."
        " To avoid clashing with headers from the original record, all error context header keys, all "
        "error context header keys will start with <code>__connect.errors.</code>",
    ),
)
"""What sinks have besides."""
