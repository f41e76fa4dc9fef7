"""What hostile values have broken in a live SQL server, part by part."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.client import Client
from ottla.java import PatternError, Wildcards
from ottla.sql.commands.command import Command, CommandId
from ottla.sql.formats import codec
from ottla.sql.schema import SqlColumn
from ottla.sql.types import STRING, ArrayType
from ottla.sql_server.processing_log import BATCH_BYTES_MAX, batches


def test_a_pattern_of_like_is_read_in_linear_time() -> None:
    began_s = time.process_time()
    with pytest.raises(PatternError, match="at most 32768 characters"):
        Wildcards("x" * (1 << 20))
    assert time.process_time() - began_s < 4


def test_records_of_the_processing_log_leave_in_batches_that_a_topic_takes() -> None:
    entries = [{"time": at, "text": "x" * 60_000} for at in range(200)]
    found = list(batches(entries))
    assert [each.timestamp for batch in found for each in batch] == list(range(200))
    assert max(sum(len(each.value or b"") for each in batch) for batch in found) <= BATCH_BYTES_MAX


def test_the_processing_log_tells_half_a_character_as_a_question_mark() -> None:
    ((record,),) = batches([{"time": 1, "text": "a\ud800"}])
    assert json.loads(record.value or b"") == {"time": 1, "text": "a?"}


@pytest.mark.parametrize("name", ["x" * 40_000, "é" * 20_000, "a\ud800b"])
def test_a_topic_s_name_that_no_request_holds_is_invalid(name: str) -> None:
    async def asked() -> None:
        await Client("127.0.0.1:1").metadata([name])

    with pytest.raises(KafkaError) as refused:
        asyncio.run(asked())
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_half_a_character_is_a_question_mark_in_protobuf_as_in_java() -> None:
    made = codec("PROTOBUF_NOSR", [SqlColumn("A", STRING), SqlColumn("B", ArrayType(STRING))])
    assert made.decode(made.encode(("a\ud800b", ["\ud83d"]))) == ("a?b", ["?"])


def test_a_command_keeps_half_a_character() -> None:
    command = Command(CommandId("stream", "`a`", "create"), "CREATE STREAM `a\ud800`;")
    assert Command.read(command.key(), command.value()).statement == command.statement
