"""Internal topics as Kafka's formatters print them: its own console consumer and ours, on the same records of Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import peer
from tests.cli.conftest import Run
from tests.ports import free_port

FORMATTERS = {
    "org.apache.kafka.tools.consumer.OffsetsMessageFormatter": "__consumer_offsets",
    "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter": "__consumer_offsets",
    "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter": "__transaction_state",
}


ONE_PARTITION = ["offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1"]


@pytest.mark.peer
@pytest.mark.slow  # Kafka's own formatters read our log in every run (`broker/test_groups_peer.py`)
def test_documents_are_kafkas(run: Run, tmp_path: Path) -> None:
    port = free_port()
    at = f"--bootstrap-server 127.0.0.1:{port}"
    with peer.running_broker(tmp_path, port, overrides=ONE_PARTITION):
        assert run(f"console-producer {at} --topic t", stdin="one\ntwo\n").code == 0
        transactional = "--transactional-id x --num-records 1 --record-size 1 --throughput -1"
        assert run(f"producer-perf-test {at} --topic t {transactional}").code == 0
        for options in ("--group classic", "--group new --command-property group.protocol=consumer"):
            read = run(
                f"console-consumer {at} --topic t --from-beginning --max-messages 2 --timeout-ms 30000 {options}"
            )
            assert read.out == "one\ntwo\n", read.err
        with peer.one_jvm() as tool:
            for formatter, topic in FORMATTERS.items():
                end = int(run(f"get-offsets {at} --topic {topic}").out.rpartition(":")[2])
                place = f"--topic {topic} --partition 0 --offset earliest --max-messages {end}"
                arguments = f"{at} {place} --formatter {formatter}"
                theirs = tool("console-consumer", *arguments.split()).stdout
                assert theirs and run(f"console-consumer {arguments}").out == theirs, formatter
