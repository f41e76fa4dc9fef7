"""`ottla word-count`: what Kafka's WordCountDemo does, on Spark, from topic to topic, until it is told to stop."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ottla.base import ErrorCode, KafkaError
from ottla.cli.client_properties import declare_client_properties, given_properties
from ottla.cli.options import Options, open_client, warn

__all__ = ["main"]

NOUN = "word-count"
INPUT_TOPIC, OUTPUT_TOPIC = "streams-plaintext-input", "streams-wordcount-output"
POLL_SECONDS = 0.5


def main(argv: list[str]) -> int:
    """Count the words of one topic into another; ends with a signal."""
    args = options().parse(argv)
    args.command_config = args.command_config or args.properties
    properties = given_properties(args)
    bootstrap = properties["bootstrap.servers"]
    cluster_id = check_topics(bootstrap, [args.input_topic, args.output_topic])
    if missing := spark_missing():
        warn(f"ottla {NOUN}: {missing}")
        return 1
    name = properties.get("application.id", "streams-wordcount")
    checkpoint = Path(args.checkpoint or state_folder() / cluster_id / name)
    checkpoint.mkdir(parents=True, exist_ok=True)
    return count(bootstrap, checkpoint, input_topic=args.input_topic, output_topic=args.output_topic)


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


def check_topics(bootstrap: str, topics: list[str]) -> str:
    """Return the cluster's id; raises KafkaError for a topic that is not there, as Kafka Streams does."""
    with open_client(bootstrap) as client:
        cluster = client.metadata(topics)
    for topic in topics:
        if not cluster.partitions_of(topic):
            remedy = f"kafka-topics.sh --create --topic {topic} --bootstrap-server {bootstrap}"
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} is not there; make it first: {remedy}"
            )
    return cluster.cluster_id or "cluster"


def spark_missing() -> str | None:
    """Return one line that says what Spark lacks here, or None."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        return "Spark is not installed: pip install 'ottla[spark]'"
    from ottla.spark import java_missing

    return java_missing()


def state_folder() -> Path:
    """Return where the counts of all clusters are kept (XDG base directories)."""
    home = os.environ.get("XDG_STATE_HOME")
    return Path(home if home else Path.home() / ".local" / "state") / "ottla" / "word-count"


def count(bootstrap: str, checkpoint: Path, *, input_topic: str, output_topic: str) -> int:
    """Run the streaming query until a signal comes; raises KafkaError with what Spark says where it fails."""
    from ottla.cli.demo import standard_error_to
    from ottla.spark import WordCount, session

    with standard_error_to(checkpoint.parent / "spark.log"):
        spark = session(NOUN)
    stopping = Stopping()
    counting = WordCount(bootstrap, str(checkpoint), input_topic=input_topic, output_topic=output_topic)
    query = counting.start(spark)
    try:
        print(f"counting the words of {input_topic} into {output_topic}; state is kept in {checkpoint}", flush=True)
        while not stopping.asked and not query.awaitTermination(POLL_SECONDS):  # type: ignore[arg-type]  # milliseconds
            pass
    except Exception as error:
        if type(error).__name__ != "StreamingQueryException":  # whose class only the Spark room may name
            raise
        first = str(error).splitlines()[0]
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, first) from error
    finally:
        query.stop()
        spark.stop()
    return 0


class Stopping:
    """Becomes true with the first signal, in the place of Spark's own handler; the second ends the process at once."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _frame: object) -> None:
        if self.asked:
            os._exit(128 + number)
        self.asked = True
