"""Where in a user's own code an error came from, and that what stops an application says it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ottla.base import OttlaError
from ottla.streams import Function, StoreSpec
from ottla.streams import operations as op
from ottla.streams.engine import ProcessingError
from ottla.streams.processor_api import Processor, ProcessRecord, PunctuationType
from ottla.streams.user_code import raised_in
from tests.streams.engine.plans import LONG, STRING, Run, record, sink, source, step, topology


def caught(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as found:
        call()
    return found.value


def parsed(text: str) -> Any:
    return json.loads(text)


def refused(value: Any) -> Any:
    raise ValueError("two\nlines")


def place(function: Callable[..., Any]) -> str:
    return f"in {function.__name__} at {__file__}:{function.__code__.co_firstlineno + 1}"


def test_the_line_of_the_users_function_is_named_and_not_the_librarys() -> None:
    assert raised_in(caught(lambda: parsed("{"))) == place(parsed)


def test_an_error_without_a_line_of_the_users_has_no_place() -> None:
    assert raised_in(OttlaError("never raised")) is None


def test_a_step_that_raises_is_named_with_its_line_and_its_record() -> None:
    plan = topology(source(), step("map", op.MapValues(Function.of(refused)), "source"), sink("map"))
    bad = record("a", "1", 1)._replace(topic="in", partition=2, offset=7)
    error = caught(lambda: Run(plan).batch([bad]))
    assert isinstance(error, ProcessingError)
    assert f"the record at in-2, offset 7, {place(refused)}: ValueError" in str(error) and "\n" not in str(error)


def test_a_step_behind_one_that_holds_back_is_named_with_its_line() -> None:
    plan = topology(
        source(),
        step("count", op.StreamAggregate("counts", op.Aggregator("count")), "source", "counts"),
        step("stream", op.TableToStream(), "count"),
        step("map", op.MapValues(Function.of(refused)), "stream"),
        sink("map"),
        stores=[StoreSpec("counts", "timestamped_key_value", STRING, LONG)],
    )
    error = caught(lambda: Run(plan, cache=True).batch([record("a", "1", 1), record("a", "2", 1)]))
    assert isinstance(error, ProcessingError)
    assert f"held back cannot be processed, {place(refused)}: ValueError" in str(error)


class Scheduled(Processor):
    def init(self, context: Any) -> None:
        context.schedule(1, PunctuationType.STREAM_TIME, refused)

    def process(self, record: ProcessRecord) -> None:
        pass


def test_a_schedule_that_raises_is_named_with_its_line() -> None:
    plan = topology(source(), step("mine", op.Process(Scheduled), "source"), sink("mine"))
    error = caught(lambda: Run(plan).batch([record("a", "1", 1)]))
    assert isinstance(error, ProcessingError) and f"failed, {place(refused)}: ValueError" in str(error)
