"""`ottla run-class CLASS …`: what `kafka-run-class` is called for, by the names of Kafka's Java classes, old and new."""

from __future__ import annotations

from ottla.cli.main import run
from ottla.cli.options import warn

__all__ = ["CLASSES", "main"]

CLASSES = {
    "kafka.Kafka": "kafka-server-start",
    "kafka.admin.AclCommand": "kafka-acls",
    "kafka.admin.BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "kafka.admin.ConfigCommand": "kafka-configs",
    "kafka.admin.ConsumerGroupCommand": "kafka-consumer-groups",
    "kafka.admin.DelegationTokenCommand": "kafka-delegation-tokens",
    "kafka.admin.DeleteRecordsCommand": "kafka-delete-records",
    "kafka.admin.FeatureCommand": "kafka-features",
    "kafka.admin.LeaderElectionCommand": "kafka-leader-election",
    "kafka.admin.LogDirsCommand": "kafka-log-dirs",
    "kafka.admin.MetadataQuorumCommand": "kafka-metadata-quorum",
    "kafka.admin.ReassignPartitionsCommand": "kafka-reassign-partitions",
    "kafka.admin.TopicCommand": "kafka-topics",
    "kafka.admin.TransactionsCommand": "kafka-transactions",
    "kafka.tools.ClusterTool": "kafka-cluster",
    "kafka.tools.ConsoleConsumer": "kafka-console-consumer",
    "kafka.tools.ConsoleProducer": "kafka-console-producer",
    "kafka.tools.ConsumerPerformance": "kafka-consumer-perf-test",
    "kafka.tools.DumpLogSegments": "kafka-dump-log",
    "kafka.tools.EndToEndLatency": "kafka-e2e-latency",
    "kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "kafka.tools.ReplicaVerificationTool": "kafka-replica-verification",
    "kafka.tools.StorageTool": "kafka-storage",
    "kafka.tools.StreamsResetter": "kafka-streams-application-reset",
    "org.apache.kafka.connect.cli.ConnectDistributed": "connect-distributed",
    "org.apache.kafka.connect.cli.ConnectStandalone": "connect-standalone",
    "org.apache.kafka.connect.mirror.MirrorMaker": "connect-mirror-maker",
    "org.apache.kafka.shell.MetadataShell": "kafka-metadata-shell",
    "org.apache.kafka.tools.AclCommand": "kafka-acls",
    "org.apache.kafka.tools.BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "org.apache.kafka.tools.ClientMetricsCommand": "kafka-client-metrics",
    "org.apache.kafka.tools.ClusterTool": "kafka-cluster",
    "org.apache.kafka.tools.ConsoleProducer": "kafka-console-producer",
    "org.apache.kafka.tools.ConsumerPerformance": "kafka-consumer-perf-test",
    "org.apache.kafka.tools.DelegationTokenCommand": "kafka-delegation-tokens",
    "org.apache.kafka.tools.DeleteRecordsCommand": "kafka-delete-records",
    "org.apache.kafka.tools.DumpLogSegments": "kafka-dump-log",
    "org.apache.kafka.tools.EndToEndLatency": "kafka-e2e-latency",
    "org.apache.kafka.tools.FeatureCommand": "kafka-features",
    "org.apache.kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "org.apache.kafka.tools.GroupsCommand": "kafka-groups",
    "org.apache.kafka.tools.LeaderElectionCommand": "kafka-leader-election",
    "org.apache.kafka.tools.LogDirsCommand": "kafka-log-dirs",
    "org.apache.kafka.tools.MetadataQuorumCommand": "kafka-metadata-quorum",
    "org.apache.kafka.tools.ProducerPerformance": "kafka-producer-perf-test",
    "org.apache.kafka.tools.ReplicaVerificationTool": "kafka-replica-verification",
    "org.apache.kafka.tools.ShareConsumerPerformance": "kafka-share-consumer-perf-test",
    "org.apache.kafka.tools.StreamsResetter": "kafka-streams-application-reset",
    "org.apache.kafka.tools.TopicCommand": "kafka-topics",
    "org.apache.kafka.tools.TransactionsCommand": "kafka-transactions",
    "org.apache.kafka.tools.VerifiableConsumer": "kafka-verifiable-consumer",
    "org.apache.kafka.tools.VerifiableProducer": "kafka-verifiable-producer",
    "org.apache.kafka.tools.consumer.ConsoleConsumer": "kafka-console-consumer",
    "org.apache.kafka.tools.consumer.ConsoleShareConsumer": "kafka-console-share-consumer",
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": "kafka-consumer-groups",
    "org.apache.kafka.tools.consumer.group.ShareGroupCommand": "kafka-share-groups",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand": "kafka-reassign-partitions",
    "org.apache.kafka.tools.streams.StreamsGroupCommand": "kafka-streams-groups",
}
"""Class -> the script that does its work: the classes of Kafka 4.3, and the names that they had in 2.x and 3.x."""

DEMOS = {"org.apache.kafka.streams.examples.wordcount.WordCountDemo": "word-count"}
"""Class -> noun, where Kafka has no script."""
JAVA_FLAGS = ("-daemon", "-loggc")
"""Options of Kafka's script before the class; `-name` is the third, and takes a value."""


def main(argv: list[str]) -> int:
    """Run what the class named first is for."""
    from ottla.cli.scripts import run_script

    flags, rest = leading_flags(argv)
    if not rest or rest[0] in ("-h", "--help"):
        print("usage: ottla run-class CLASS [options]     (kafka.tools.GetOffsetShell, org.apache.kafka.tools.…)")
        return 0 if rest else 1
    name, *args = rest
    if name in DEMOS:
        return run(DEMOS[name], args)
    if name not in CLASSES:
        warn(f"ottla run-class: {name} is no class that Ottla has a command for; `ottla --help` lists what it has")
        return 1
    starts_server = CLASSES[name] == "kafka-server-start"
    return run_script(CLASSES[name], [*(flags if starts_server else []), *args])


def leading_flags(argv: list[str]) -> tuple[list[str], list[str]]:
    """Split what stands before the class, which was for the Java machine, from the class and its arguments."""
    flags: list[str] = []
    while argv and (argv[0] in JAVA_FLAGS or argv[0] == "-name"):
        if argv[0] == "-name":
            argv = argv[2:]
            continue
        flags.append(argv[0])
        argv = argv[1:]
    return flags, argv
