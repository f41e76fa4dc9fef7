"""An old librdkafka compresses what it sends only where the broker advertises Produce 0, as Kafka does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla.wire import Attributes, Codec, iter_batches, iter_records
from tests.compat.old_producer import VALUE
from tests.compat.other_languages import OLD_LIBRDKAFKA, build_old_librdkafka
from tests.compat.test_confluent_kafka import create
from tests.server import Server

pytestmark = pytest.mark.compat

COUNT = 200
COMPRESSED_TO_MAX = 0.2
"""What a codec must leave at most of records that repeat one another; the bytes on disk are the judge."""


@pytest.fixture(scope="module")
def old_python() -> Path:
    return build_old_librdkafka()


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_an_old_librdkafka_compresses_with_every_codec(
    server: Server, old_python: Path, topic: str, codec: Codec
) -> None:
    create(server.bootstrap, topic)
    program = str(Path(__file__).with_name("old_producer.py"))
    sent = subprocess.run(
        [str(old_python), program, server.bootstrap, topic, codec.name.lower(), str(COUNT)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={},
    )
    assert (sent.returncode, sent.stdout.strip()) == (0, OLD_LIBRDKAFKA), sent.stderr
    stored = (server.folder / "data" / f"{topic}-0" / f"{0:020}.log").read_bytes()
    assert [each.value for each in iter_records(stored)] == [VALUE] * COUNT
    assert {header.attributes & Attributes.CODEC for header, _ in iter_batches(stored)} == {codec}
    if codec is not Codec.NONE:
        assert len(stored) < COMPRESSED_TO_MAX * COUNT * len(VALUE)
