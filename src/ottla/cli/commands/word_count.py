"""`ottla word-count`: what Kafka's WordCountDemo does, on Spark, from topic to topic, until it is told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base import ErrorCode, KafkaError
from ottla.cli.client_properties import declare_client_properties, given_properties
from ottla.cli.options import SECURITY, Options, open_client
from ottla.cli.streams_process import (
    Interrupted,
    StopSignals,
    leave,
    phases_on_standard_error,
    spark_log,
    standard_error_to,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.streams import Topology

__all__ = ["main", "topology"]

NOUN = "word-count"
INPUT_TOPIC, OUTPUT_TOPIC = "streams-plaintext-input", "streams-wordcount-output"
POLL_SECONDS = 0.2
APPLICATION_ID = "streams-wordcount"
SETTINGS = ("application.id", "commit.interval.ms", "processing.guarantee", "replication.factor", "state.dir")
"""What a properties file may say about how the words are counted."""


def main(argv: list[str]) -> int:
    """Count the words of one topic into another; ends with a signal."""
    from ottla.spark import check_spark

    args = options().parse(argv)
    check_spark()
    args.command_config = args.command_config or args.properties
    properties = given_properties(args)
    bootstrap = properties["bootstrap.servers"]
    check_topics(properties, [args.input_topic, args.output_topic])
    settings = {name: value for name, value in properties.items() if name in SETTINGS or name.startswith(SECURITY)}
    settings = {"application.id": APPLICATION_ID, "bootstrap.servers": bootstrap, **settings}
    if args.checkpoint:
        settings["state.dir"] = args.checkpoint
    return count(topology(args.input_topic, args.output_topic), settings)


def topology(input_topic: str, output_topic: str) -> Topology:
    """Return the plan: examples/streams/word_count.py, between two topics. Words are of [A-Za-z0-9_], in lower case."""
    from ottla.streams import StreamsBuilder

    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    words = builder.stream(input_topic).flat_map_values(r"split(lower(value), r'\W+')").filter("value <> ''")
    words.group_by("value").count(materialized="counts").to_stream().to(output_topic, value_serde="long")
    return builder.build()


def options() -> Options:
    """Return the parser."""
    parser = Options(NOUN, "Count words from topic to topic on Spark, as Kafka's WordCountDemo does.")
    parser.add_argument("properties", nargs="?", metavar="streams.properties", help="application.id, bootstrap.servers")
    declare_client_properties(parser, old_config="config-file")
    parser.add_argument("--input-topic", default=INPUT_TOPIC, metavar="TOPIC", help=f"lines (default: {INPUT_TOPIC})")
    parser.add_argument(
        "--output-topic", default=OUTPUT_TOPIC, metavar="TOPIC", help=f"counts (default: {OUTPUT_TOPIC})"
    )
    parser.add_argument("--checkpoint", metavar="FOLDER", help="where offsets and counts are kept between runs")
    return parser


def check_topics(properties: dict[str, str], topics: list[str]) -> None:
    """Raise KafkaError for a topic that is not there, as Kafka Streams does, with the command that makes it."""
    bootstrap = properties["bootstrap.servers"]
    with open_client(bootstrap, properties) as client:
        cluster = client.metadata(topics)
    for topic in topics:
        if not cluster.partitions_of(topic):
            remedy = f"kafka-topics.sh --create --topic {topic} --bootstrap-server {bootstrap}"
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} is not there; make it first: {remedy}"
            )


def count(plan: Topology, settings: Mapping[str, str]) -> int:
    """Run the plan until a signal comes; raises KafkaError with the reason where it fails."""
    from ottla.spark import StreamsApplication

    application = StreamsApplication(plan, settings)
    stopping = StopSignals()
    log = spark_log(application.settings.application_id)
    try:
        with stopping.while_starting(), phases_on_standard_error(), standard_error_to(log):
            application.start()
        folder = application.status()["checkpoint"]
        print(f"counting words; state is kept in {folder}, what Spark says in {log}", flush=True)
        while not application.state.is_final and not stopping.asked.wait(POLL_SECONDS):
            pass
    except Interrupted as interrupted:
        leave(interrupted)
    finally:
        application.close()
    if application.error is not None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, application.error.reason)
    return 0
