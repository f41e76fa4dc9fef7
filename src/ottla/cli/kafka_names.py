"""The names of Kafka's scripts, and of Confluent's and ksqlDB's beside them, and the nouns that do their work."""

from __future__ import annotations

__all__ = ["KAFKA_NOUNS", "NO_ZOOKEEPER", "SCRIPTS"]

CONFLUENTS_URL = "http://localhost:8081"
"""Where Confluent's console tools look for a registry, unless told otherwise."""

SCRIPTS: dict[str, tuple[str, ...]] = {
    "kafka-acls": ("acls",),
    "kafka-broker-api-versions": ("broker-api-versions",),
    "kafka-client-metrics": ("client-metrics",),
    "kafka-cluster": ("cluster",),
    "kafka-configs": ("configs",),
    "kafka-console-consumer": ("console-consumer",),
    "kafka-console-producer": ("console-producer",),
    "kafka-console-share-consumer": ("console-share-consumer",),
    "kafka-consumer-groups": ("consumer-groups",),
    "kafka-consumer-perf-test": ("consumer-perf-test",),
    "kafka-delegation-tokens": ("delegation-tokens",),
    "kafka-delete-records": ("delete-records",),
    "kafka-dump-log": ("dump-log",),
    "kafka-e2e-latency": ("e2e-latency",),
    "kafka-features": ("features",),
    "kafka-get-offsets": ("get-offsets",),
    "kafka-groups": ("groups",),
    "kafka-leader-election": ("leader-election",),
    "kafka-log-dirs": ("log-dirs",),
    "kafka-metadata-quorum": ("metadata-quorum",),
    "kafka-metadata-shell": ("metadata-shell",),
    "kafka-producer-perf-test": ("producer-perf-test",),
    "kafka-reassign-partitions": ("reassign-partitions",),
    "kafka-replica-verification": ("replica-verification",),
    "kafka-run-class": ("run-class",),
    "kafka-server-start": ("server", "start"),
    "kafka-server-stop": ("server", "stop"),
    "kafka-share-consumer-perf-test": ("share-consumer-perf-test",),
    "kafka-share-groups": ("share-groups",),
    "kafka-storage": ("storage",),
    "kafka-streams-application-reset": ("streams-application-reset",),
    "kafka-streams-groups": ("streams-groups",),
    "kafka-topics": ("topics",),
    "kafka-transactions": ("transactions",),
    "kafka-verifiable-consumer": ("verifiable-consumer",),
    "kafka-verifiable-producer": ("verifiable-producer",),
    "kafka-avro-console-consumer": ("console-consumer", "--schema-registry", CONFLUENTS_URL),
    "kafka-avro-console-producer": ("console-producer", "--schema-registry", CONFLUENTS_URL, "--value-format", "avro"),
    "kafka-json-schema-console-consumer": ("console-consumer", "--schema-registry", CONFLUENTS_URL),
    "kafka-json-schema-console-producer": (
        "console-producer",
        "--schema-registry",
        CONFLUENTS_URL,
        "--value-format",
        "json-schema",
    ),
    "kafka-protobuf-console-consumer": ("console-consumer", "--schema-registry", CONFLUENTS_URL),
    "kafka-protobuf-console-producer": (
        "console-producer",
        "--schema-registry",
        CONFLUENTS_URL,
        "--value-format",
        "protobuf",
    ),
    "connect-distributed": ("connect-distributed",),
    "connect-mirror-maker": ("connect-mirror-maker",),
    "connect-standalone": ("connect-standalone",),
    "ksql": ("sql", "shell"),
    "ksql-migrations": ("sql", "migrations"),
    "ksql-server-start": ("sql", "server"),
    "ksql-test-runner": ("sql", "test"),
}
"""Script -> noun, with the action where the noun has several. A noun that is not there yet is said to be missing."""

NO_ZOOKEEPER = {
    "zookeeper-server-start": "There is no ZooKeeper to start: the broker keeps the cluster's metadata itself (KRaft). "
    "Go on with kafka-server-start.sh.",
    "zookeeper-server-stop": "There is no ZooKeeper to stop: the broker keeps the cluster's metadata itself (KRaft).",
}
"""What the two scripts of Kafka before 4.0 say; instructions that call them go on working."""

KAFKA_NOUNS = frozenset(noun for noun, *action in SCRIPTS.values() if not action)
"""Nouns whose options are Kafka's, down to this: an option may be abbreviated as long as it is clear which is meant."""
