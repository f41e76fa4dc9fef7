"""Commands in order, and what Apache Kafka 4.3.0's own tools printed for each, written down from its standard output.

`{id}` and `{time}` stand for what differs from run to run. Kafka's tools print the errors of a topics command on standard
output; where a tool's error is one line among a stack trace on standard error, only the exit code is compared here and
the line is Ottla's business.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["STEPS", "Step"]


@dataclass(frozen=True)
class Step:
    """One command: the tool's name, its arguments besides `--bootstrap-server`, and what must come of it."""

    tool: str
    args: str
    out: str = ""
    code: int = 0
    stdin: str = ""
    err: str | None = None
    """The first line of standard error where Kafka's tool and Ottla both print this one."""

    @property
    def name(self) -> str:
        """The test's name."""
        return f"{self.tool} {self.args}"


FAILED = "Error while executing topic command : "
COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both.\n"
)


def topic_line(name: str, partitions: int, configs: str = "min.insync.replicas=1") -> str:
    return f"Topic: {name}\tTopicId: {{id}}\tPartitionCount: {partitions}\tReplicationFactor: 1\tConfigs: {configs}\n"


def partition_lines(name: str, partitions: int) -> str:
    return "".join(
        f"\tTopic: {name}\tPartition: {index}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n"
        for index in range(partitions)
    )


COLUMNS = " ".join(
    f"--formatter-property print.{name}=true" for name in ("timestamp", "partition", "offset", "headers", "key")
)

STEPS = [
    Step("topics", "--list", "\n"),
    Step("topics", "--create --topic a --partitions 3 --replication-factor 1", "Created topic a.\n"),
    Step("topics", "--create --topic a", f"{FAILED}Topic 'a' already exists.\n", 1),
    Step("topics", "--create --topic a --if-not-exists"),
    Step(
        "topics",
        "--create --topic a.b --config cleanup.policy=compact",
        f"{COLLISION}Created topic a.b.\n",
    ),
    Step(
        "topics",
        "--create --topic a_b",
        f"{COLLISION}{FAILED}Topic 'a_b' collides with existing topic: a.b\n",
        1,
    ),
    Step(
        "topics",
        "--create --topic c --config retention.ms=abc",
        f"{FAILED}Invalid value abc for configuration retention.ms: Not a number of type LONG\n",
        1,
    ),
    Step("topics", "--create --topic c --config foo=1", f"{FAILED}Unknown topic config name: foo\n", 1),
    Step(
        "topics",
        "--create --topic c --config foo",
        f'{FAILED}requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".\n',
        1,
    ),
    Step(
        "topics",
        "--create --topic c --replication-factor 3",
        f"{FAILED}Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached "
        "because only 1 broker(s) are registered or some brokers have all their log directories cordoned.\n",
        1,
    ),
    Step("topics", "--create --topic c --partitions 0", f"{FAILED}The partitions must be greater than 0\n", 1),
    Step(
        "topics",
        "--create --topic a%b",
        f"{FAILED}Topic name is invalid: 'a%b' contains one or more characters other than ASCII alphanumerics, "
        "'.', '_' and '-'\n",
        1,
    ),
    Step("topics", "--create --topic asg --replica-assignment 1,1,1", "Created topic asg.\n"),
    Step(
        "topics",
        "--create --topic asg2 --replica-assignment 1:2,1",
        f"{FAILED}Partition 1 has different replication factor: [1]\n",
        1,
    ),
    Step(
        "topics",
        "--create --topic asg3 --replica-assignment 1:1",
        f"{FAILED}Partition replica lists may not contain duplicate entries: 1\n",
        1,
    ),
    Step("topics", "--list", "a\na.b\nasg\n"),
    Step("topics", "--list --topic as.*", "asg\n"),
    Step("topics", "--list --topic zzz", "\n"),
    Step("topics", "--describe --topic a", topic_line("a", 3) + partition_lines("a", 3)),
    Step(
        "topics",
        "--describe --topics-with-overrides --topic a.b",
        topic_line("a.b", 1, "cleanup.policy=compact,min.insync.replicas=1"),
    ),
    Step("topics", "--describe --at-min-isr-partitions --topic asg", partition_lines("asg", 3)),
    Step("topics", "--describe --under-replicated-partitions"),
    Step("topics", "--describe --unavailable-partitions"),
    Step("topics", "--describe --under-min-isr-partitions"),
    Step("topics", "--describe --topic zzz", f"{FAILED}Topic 'zzz' does not exist as expected\n", 1),
    Step("topics", "--describe --topic zzz --if-exists"),
    Step(
        "topics",
        "--describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ",
        f"{FAILED}TopicId 'AAAAAAAAAAAAAAAAAAAAAQ' does not exist as expected\n",
        1,
    ),
    Step("topics", "--alter --topic a --partitions 5"),
    Step(
        "topics",
        "--alter --topic a --partitions 2",
        f"{FAILED}The topic a currently has 5 partition(s); 2 would not be an increase.\n",
        1,
    ),
    Step("topics", "--alter --topic a --partitions 5", f"{FAILED}Topic already has 5 partition(s).\n", 1),
    Step("topics", "--alter --topic a --partitions 7 --replica-assignment 1,1,1,1,1,1,1"),
    Step("topics", "--alter --topic zzz --partitions 5", f"{FAILED}Topic 'zzz' does not exist as expected\n", 1),
    Step("topics", "--alter --topic zzz --partitions 5 --if-exists"),
    Step("topics", "--delete --topic a.b"),
    Step("topics", "--delete --topic zzz", f"{FAILED}Topic 'zzz' does not exist as expected\n", 1),
    Step("topics", "--delete --topic zzz --if-exists"),
    Step("topics", "--delete --topic asg.*"),
    Step("topics", "--list", "a\n"),
    Step("topics", "--create --topic r --partitions 1", "Created topic r.\n"),
    Step("console-producer", "--topic r", stdin="one\ntwo\n\nthree"),
    Step("console-producer", "--topic r --reader-property parse.key=true --sync", stdin="k1\tv1\nk2\tv2\n"),
    Step(
        "console-producer",
        "--topic r --reader-property parse.key=true --reader-property key.separator=:",
        code=1,
        stdin="k3:v3\nnokey\n",
    ),
    Step(
        "console-producer",
        "--topic r --reader-property parse.key=true --reader-property key.separator=: "
        "--reader-property ignore.error=true",
        stdin="k4:v4\nnokey\n",
    ),
    Step(
        "console-producer",
        "--topic r --reader-property parse.key=true --reader-property parse.headers=true",
        stdin="h1:a,h2:b\tkk\tvv\n",
    ),
    Step(
        "console-producer",
        "--topic r --reader-property parse.key=true --reader-property parse.headers=true",
        code=1,
        stdin="h1a\tkk\tvv\n",
    ),
    Step(
        "console-producer",
        "--topic r --reader-property parse.key=true --reader-property parse.headers=true "
        "--reader-property null.marker=NULL",
        stdin="NULL\tkk\tNULL\n",
    ),
    Step("console-producer", "--topic r --compression-codec", stdin="gz\n"),
    Step("console-producer", "--topic r --compression-codec zstd", stdin="zs\n"),
    Step("console-producer", "--topic r --compression-codec brotli", code=1, stdin="x\n"),
    Step("console-producer", "--topic r --request-required-acks 7", code=1, stdin="x\n"),
    Step(
        "console-producer",
        "--topic r --property parse.key=true",
        "Warning: --property is deprecated and will be removed in a future version. Use --reader-property instead.\n",
        stdin="old\tv\n",
    ),
    Step(
        "console-consumer",
        f"--topic r --partition 0 --offset 0 --max-messages 13 {COLUMNS}",
        "".join(
            f"CreateTime:{{time}}\tPartition:0\tOffset:{offset}\t{rest}\n"
            for offset, rest in enumerate(
                [
                    "NO_HEADERS\tnull\tone",
                    "NO_HEADERS\tnull\ttwo",
                    "NO_HEADERS\tnull\t",
                    "NO_HEADERS\tnull\tthree",
                    "NO_HEADERS\tk1\tv1",
                    "NO_HEADERS\tk2\tv2",
                    "NO_HEADERS\tk3\tv3",
                    "NO_HEADERS\tk4\tv4",
                    "NO_HEADERS\tnull\tnokey",
                    "h1:a,h2:b\tkk\tvv",
                    "NO_HEADERS\tkk\tnull",
                    "NO_HEADERS\tnull\tgz",
                    "NO_HEADERS\tnull\tzs",
                ]
            )
        ),
    ),
    Step("console-consumer", "--topic r --partition 0 --from-beginning --max-messages 2", "one\ntwo\n"),
    Step(
        "console-consumer",
        "--topic r --partition 0 --offset 9 --max-messages 1 --formatter-property print.key=true "
        "--formatter-property print.headers=true --formatter-property key.separator=| "
        "--formatter-property line.separator=; --formatter-property headers.separator=/",
        "h1:a/h2:b|kk|vv;",
    ),
    Step(
        "console-consumer",
        "--topic r --partition 0 --offset 10 --max-messages 1 --formatter-property print.key=true "
        "--formatter-property null.literal=NIL",
        "kk\tNIL\n",
    ),
    Step(
        "console-consumer",
        "--topic r --partition 0 --offset 4 --max-messages 1 --formatter-property print.key=true "
        "--key-deserializer org.apache.kafka.common.serialization.ShortDeserializer",
        "27441\tv1\n",
    ),
    Step(
        "console-consumer",
        "--topic r --partition 0 --offset 0 --max-messages 1 "
        "--value-deserializer org.apache.kafka.common.serialization.IntegerDeserializer",
        code=1,
    ),
    Step("console-consumer", "--topic r --partition 0 --offset latest --timeout-ms 300"),
    Step(
        "console-consumer",
        "--topic r --partition 0 --offset 0 --max-messages 3 "
        "--formatter org.apache.kafka.tools.consumer.NoOpMessageFormatter",
    ),
    Step("console-consumer", "--topic r --isolation-level foo --timeout-ms 300", code=1),
    Step("get-offsets", "--topic r", "r:0:14\n"),
    Step("get-offsets", "--topic r --time earliest", "r:0:0\n"),
    Step("get-offsets", "--topic r --time max-timestamp", "r:0:13\n"),
    Step("get-offsets", "--topic r --time 0", "r:0:0\n"),
    Step("get-offsets", "--topic r --time 99999999999999"),
    Step("get-offsets", "--topic-partitions a:0-2,r", "a:0:0\na:1:0\nr:0:14\n"),
    Step("get-offsets", "--topic-partitions a:5-", "a:5:0\na:6:0\n"),
    Step("get-offsets", "--topic a --partitions 0,2", "a:0:0\na:2:0\n"),
    Step("get-offsets", "--topic zzz", code=1),
    Step("get-offsets", "--topic a --partitions x", code=1),
    Step(
        "log-dirs",
        "--describe --topic-list zzz",
        "Querying brokers for log directories information\n"
        "Received log directory information from brokers 1\n"
        '{"brokers":[{"broker":1,"logDirs":[{"partitions":[],"error":null,"logDir":"{dir}"}]}],"version":1}\n',
    ),
    Step(
        "log-dirs",
        "--describe --broker-list 1,9",
        code=1,
        err="ERROR: The given brokers do not exist from --broker-list: 9. Current existent brokers: 1",
    ),
    *(
        Step(tool, args, code=1, err=err)
        for tool, args, err in [
            (
                "topics",
                "",
                "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
            ),
            (
                "topics",
                "--create --list --topic x",
                "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
            ),
            ("topics", "--list --foo", "foo is not a recognized option"),
            ("topics", "--create", 'Missing required argument "[topic]"'),
            ("topics", "--alter --topic a", 'Missing required argument "[partitions]"'),
            ("topics", "--list --partitions 3", 'Option "[partitions]" can\'t be used with option "[list]"'),
            (
                "topics",
                "--create --topic q --topics-with-overrides",
                'Option "[topics-with-overrides]" can\'t be used with option "[create]"',
            ),
            (
                "topics",
                "--create --topic q --replica-assignment 1 --partitions 1",
                'Option "[replica-assignment]" can\'t be used with option "[partitions]"',
            ),
            ("console-producer", "", 'Missing required argument "[topic]"'),
            (
                "console-consumer",
                "",
                "Exactly one of the following arguments is required: [topic], [include]",
            ),
            (
                "console-consumer",
                "--topic a --offset 3",
                "The partition is required when offset is specified.",
            ),
            (
                "console-consumer",
                "--topic a --partition 0 --offset foo",
                "The provided offset value 'foo' is incorrect. "
                "Valid values are 'earliest', 'latest', or a non-negative long.",
            ),
            (
                "console-consumer",
                "--topic a --partition 0 --offset 2 --from-beginning",
                "Options from-beginning and offset cannot be specified together.",
            ),
            (
                "console-consumer",
                "--topic a --partition 0 --group g",
                "Options group and partition cannot be specified together.",
            ),
            (
                "get-offsets",
                "--topic-partitions a:0 --topic a",
                "Error occurred: --topic-partitions cannot be used with --topic or --partitions",
            ),
            ("log-dirs", "", 'Missing required argument "[describe]"'),
        ]
    ),
]
