"""The processors of one's own that a case may name; `Processors.java` has the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.processor_api import FixedKeyProcessor, Processor, ProcessorContext, ProcessRecord, PunctuationType
from tests.peer.streams.functions import text

__all__ = ["supplier"]

_TYPES = {"stream": PunctuationType.STREAM_TIME, "wall": PunctuationType.WALL_CLOCK_TIME}
Given = ProcessRecord[Any, Any]


class _Named:
    def __init__(self, step: dict[str, Any]) -> None:
        self.step = step


class RunningSum(_Named, Processor[Any, Any, Any, Any]):
    """Forwards the sum of all values of a key."""

    def process(self, record: Given) -> None:
        store = self.context.get_state_store(self.step["stores"][0])
        total = (store.get(record.key) or 0) + (record.value or 0)
        store.put(record.key, total)
        self.context.forward(record.with_value(total))


class Flush(_Named, Processor[Any, Any, Any, Any]):
    """Sums values by key, and forwards and forgets all sums at each punctuation."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(self.step["every"], _TYPES[self.step["type"]], self.flush)

    def flush(self, now_ms: int) -> None:
        store = self.context.get_state_store(self.step["stores"][0])
        for key, value in list(store.all()):
            self.context.forward(ProcessRecord(key, value, now_ms))
            store.delete(key)

    def process(self, record: Given) -> None:
        store = self.context.get_state_store(self.step["stores"][0])
        store.put(record.key, (store.get(record.key) or 0) + record.value)


class Clock(_Named, Processor[Any, Any, Any, Any]):
    """Forwards the time of each punctuation under the key "tick", and stops after three."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.ticks = 0
        self.schedule = context.schedule(self.step["every"], _TYPES[self.step["type"]], self.tick)

    def tick(self, now_ms: int) -> None:
        self.context.forward(ProcessRecord("tick", str(now_ms), now_ms))
        self.ticks += 1
        if self.ticks == 3:
            self.schedule.cancel()

    def process(self, record: Given) -> None:
        self.context.forward(record)


class Later(_Named, Processor[Any, Any, Any, Any]):
    """Forwards a record twice, the second time a second later."""

    def process(self, record: Given) -> None:
        self.context.forward(record)
        self.context.forward(record.with_key(text(record.key) + "'").with_timestamp(record.timestamp + 1000))


class Times(_Named, FixedKeyProcessor[Any, Any, Any]):
    """Says what time it is: the record's and the stream's."""

    def process(self, record: Given) -> None:
        said = f"{text(record.value)}@{record.timestamp}/{self.context.current_stream_time_ms()}"
        self.context.forward(record.with_value(said))


class Header(_Named, FixedKeyProcessor[Any, Any, Any]):
    """Adds the header "seen"."""

    def process(self, record: Given) -> None:
        self.context.forward(record.with_headers((*record.headers, ("seen", text(record.value).encode()))))


_PROCESSORS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "running_sum": RunningSum,
    "flush": Flush,
    "clock": Clock,
    "later": Later,
    "times": Times,
    "header": Header,
}


def supplier(step: dict[str, Any]) -> Callable[[], Any]:
    """Return what makes a step's processor."""
    return lambda: _PROCESSORS[step["processor"]](step)
