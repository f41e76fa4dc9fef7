"""Command lines of a guide to Kafka, word for word, with what each prints; `localhost:9092` is its broker."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LINES", "Line"]


@dataclass(frozen=True)
class Line:
    """One command line; `out` is a regular expression for what it prints. One that would go on is ended by a signal."""

    command: str
    out: str
    stdin: str | None = None
    lasts: bool = False


PARTITION = r"\tTopic: mycooltopic\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n"

LINES = [
    Line("zookeeper-server-start.sh $KAFKA_HOME/config/zookeeper.properties", r"There is no ZooKeeper to start: .*\n"),
    Line(
        "kafka-server-start.sh $KAFKA_HOME/config/server.properties",
        r"data /.*\nlistening PLAINTEXT://.*\nready PLAINTEXT://.*\n",
        lasts=True,
    ),
    Line(
        "kafka-topics.sh --create --topic mycooltopic --bootstrap-server localhost:9092", "Created topic mycooltopic.\n"
    ),
    Line("kafka-console-producer.sh --topic mycooltopic --bootstrap-server localhost:9092", "", "hello\nworld\n"),
    Line(
        "kafka-console-consumer.sh --topic mycooltopic --from-beginning --bootstrap-server localhost:9092",
        "hello\nworld\n",
        lasts=True,
    ),
    Line(
        "kafka-console-consumer.sh --topic mycooltopic --from-beginning --property print.key=true "
        '--property key.separator="-" --property print.timestamp=true --bootstrap-server localhost:9092',
        r"CreateTime:\d{13}-null-hello\nCreateTime:\d{13}-null-world\n",
        lasts=True,
    ),
    Line(
        "kafka-log-dirs.sh --describe --topic-list mycooltopic --bootstrap-server localhost:9092",
        r"Querying brokers for log directories information\n"
        r"Received log directory information from brokers 1\n"
        r'\{.*"partition":"mycooltopic-0".*\}\n',
    ),
    Line(
        "kafka-topics.sh --describe --topic mycooltopic --bootstrap-server localhost:9092",
        r"Topic: mycooltopic\tTopicId: [\w-]{22}\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: .*\n" + PARTITION,
    ),
    Line(
        "kafka-run-class.sh kafka.tools.GetOffsetShell --broker-list localhost:9092 --topic mycooltopic",
        "mycooltopic:0:2\n",
    ),
    Line("kafka-topics.sh --list --bootstrap-server localhost:9092", "mycooltopic\n"),
]
