"""A case's topology made with our DSL: `Plans.java` in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams import (
    BufferConfig,
    EmitStrategy,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UnlimitedWindows,
)
from tests.peer.streams import functions as named
from tests.streams.java import processors

__all__ = ["build"]

Step = dict[str, Any]


class Extractor:
    """A timestamp extractor of a case."""

    def __init__(self, name: str) -> None:
        self.name = name

    def extract(self, record: Any, partition_time: int) -> int:
        """Return a time in milliseconds."""
        if self.name == "minus_10":
            return int(record.timestamp) - 10
        return partition_time if record.value is None else int(record.value)


def build(steps: list[Step]) -> Topology:
    """Return the topology that the steps describe."""
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    made: dict[str, Any] = {}
    for step in steps:
        _Calls(builder, made, step).make()
    return builder.build()


def _mapper(name: str) -> Callable[[Any, Any], Any]:
    return named.MAPPERS[name]


def _windows(given: Step) -> Any:
    grace = given.get("grace", 0)
    match given["kind"]:
        case "time":
            made = TimeWindows.of_size(given["size"], grace=grace)
            return made.advance_by(given["advance"]) if "advance" in given else made
        case "sliding":
            return SlidingWindows.of_difference(given["difference"], grace=grace)
        case "session":
            return SessionWindows.of_inactivity_gap(given["gap"], grace=grace)
        case kind:
            assert kind == "unlimited"
            return UnlimitedWindows.of().start_on(given["start"])


class _Calls:
    """One step: what it is called on, and with what."""

    def __init__(self, builder: StreamsBuilder, made: dict[str, Any], step: Step) -> None:
        self.builder, self.made, self.step = builder, made, step
        self.of = made.get(step.get("of", ""))
        self.name = step.get("name")
        self.function = step.get("fn", "")
        self.serdes = {f"{part}_serde": step[part] for part in ("key", "value") if part in step}

    def make(self) -> None:
        """Call the method that has the step's name, and remember what it returns."""
        kind = type(self.of).__name__
        own = getattr(self, f"{self.step['op']}_of_{kind}", None) or getattr(self, self.step["op"])
        result = own()
        if self.step.get("id"):
            self.made[self.step["id"]] = result

    @property
    def other(self) -> Any:
        return self.made[self.step["with"]]

    def materialized(self) -> Materialized:
        step = self.step
        store = Stores.versioned(step["store"], step["versioned"]) if "versioned" in step else None
        return Materialized(
            None if store else step.get("store"),
            step.get("key"),
            step.get("value"),
            retention=step.get("retention"),
            store=store,
        )

    def kept(self) -> Materialized | None:
        return self.materialized() if "store" in self.step else None

    # -- sources and stores

    def stream(self) -> Any:
        extractor = Extractor(self.step["extractor"]) if "extractor" in self.step else None
        topics = self.step.get("topics", [self.step["topic"]])
        return self.builder.stream(topics, **self.serdes, timestamp_extractor=extractor, name=self.name)

    def table(self) -> Any:
        return self.builder.table(self.step["topic"], **self.serdes, materialized=self.kept(), name=self.name)

    def global_table(self) -> Any:
        return self.builder.global_table(self.step["topic"], **self.serdes, materialized=self.kept(), name=self.name)

    def store(self) -> None:
        assert self.step["kind"] == "key_value"
        self.builder.add_state_store(Stores.key_value_store(self.step["name"], self.step["key"], self.step["value"]))

    # -- streams

    def filter(self) -> Any:
        return self.of.filter(named.PREDICATES[self.function], name=self.name)

    def filter_not(self) -> Any:
        return self.of.filter_not(named.PREDICATES[self.function], name=self.name)

    def map(self) -> Any:
        return self.of.map(_mapper(self.function), name=self.name)

    def map_values(self) -> Any:
        return self.of.map_values(_mapper(self.function), name=self.name)

    def flat_map(self) -> Any:
        return self.of.flat_map(_mapper(self.function), name=self.name)

    def flat_map_values(self) -> Any:
        return self.of.flat_map_values(_mapper(self.function), name=self.name)

    def select_key(self) -> Any:
        return self.of.select_key(_mapper(self.function), name=self.name)

    def peek(self) -> Any:
        return self.of.peek(lambda key, value: None, name=self.name)

    def merge(self) -> Any:
        return self.of.merge(self.other, name=self.name)

    def split(self) -> None:
        split = self.of.split(name=self.name)
        for branch in self.step["branches"]:

            def to(stream: Any, id: str = branch["id"]) -> None:
                self.made[id] = stream

            if "fn" in branch:
                split.branch(named.PREDICATES[branch["fn"]], to=to)
            else:
                split.default_branch(to=to)
                return
        split.no_default_branch()

    def repartition(self) -> Any:
        return self.of.repartition(name=self.name, **self.serdes)

    def to(self) -> None:
        if "topic_by_key" in self.step:
            self.of.to(lambda key, value, record: f"{self.step['topic_by_key']}{named.text(key)}", **self.serdes)
        else:
            self.of.to(self.step["topic"], **self.serdes, name=self.name)

    def to_table(self) -> Any:
        return self.of.to_table(name=self.name, materialized=self.materialized())

    def group_by(self) -> Any:
        return self.of.group_by(_mapper(self.function), name=self.name, **self.serdes)

    def group_by_key(self) -> Any:
        return self.of.group_by_key(name=self.name, **self.serdes)

    def process(self) -> Any:
        return self.of.process(processors.supplier(self.step), *self.step.get("stores", ()), name=self.name)

    def process_values(self) -> Any:
        return self.of.process_values(processors.supplier(self.step), *self.step.get("stores", ()), name=self.name)

    # -- joins of streams

    def join_of_KStream(self) -> Any:
        return self._stream_join(self.of.join)

    def left_join_of_KStream(self) -> Any:
        return self._stream_join(self.of.left_join)

    def outer_join_of_KStream(self) -> Any:
        return self._stream_join(self.of.outer_join)

    def _stream_join(self, join: Callable[..., Any]) -> Any:
        step, joiner = self.step, named.JOINERS[self.function]
        if "windows" in step:
            window = step["windows"]
            given = StreamJoined(
                step.get("key"),
                step.get("value"),
                step.get("other_value"),
                name=self.name,
                store_name=step.get("store"),
            )
            if "grace" in window:
                windows = JoinWindows(window["before"], window["after"], window["grace"])
            else:
                windows = JoinWindows.of(0).before(window["before"]).after(window["after"])
            return join(self.other, joiner, windows, stream_joined=given)
        if "select" in step:
            return join(self.other, joiner, key=_mapper(step["select"]))
        return join(self.other, joiner, name=self.name, grace=step.get("grace"))

    # -- tables

    def filter_of_KTable(self) -> Any:
        return self.of.filter(named.PREDICATES[self.function], materialized=self.kept())

    def filter_not_of_KTable(self) -> Any:
        return self.of.filter_not(named.PREDICATES[self.function], materialized=self.kept())

    def map_values_of_KTable(self) -> Any:
        return self.of.map_values(_mapper(self.function), materialized=self.kept())

    def to_stream(self) -> Any:
        return self.of.to_stream(_mapper(self.function)) if self.function else self.of.to_stream(name=self.name)

    def suppress(self) -> Any:
        step = self.step
        buffer = BufferConfig.unbounded()
        if "max_records" in step:
            buffer = BufferConfig.of_max_records(step["max_records"])
            if step.get("full") == "stop" or step["until"] == "window_close":
                buffer = buffer.shut_down_when_full()
        if step["until"] == "window_close":
            return self.of.suppress(Suppressed.until_window_closes(buffer, name=self.name))
        return self.of.suppress(Suppressed.until_time_limit(step["wait"], buffer, name=self.name))

    def join_of_KTable(self) -> Any:
        return self._table_join(self.of.join)

    def left_join_of_KTable(self) -> Any:
        return self._table_join(self.of.left_join)

    def outer_join_of_KTable(self) -> Any:
        return self._table_join(self.of.outer_join)

    def _table_join(self, join: Callable[..., Any]) -> Any:
        joiner = named.JOINERS[self.function]
        return join(self.other, lambda left, right: joiner(None, left, right), materialized=self.kept(), name=self.name)

    def fk_join(self) -> Any:
        return self._foreign_key_join(self.of.join)

    def fk_left_join(self) -> Any:
        return self._foreign_key_join(self.of.left_join)

    def _foreign_key_join(self, join: Callable[..., Any]) -> Any:
        joiner = named.JOINERS[self.function]
        return join(
            self.other,
            lambda left, right: joiner(None, left, right),
            foreign_key=_mapper(self.step["foreign"]),
            name=self.name,
            materialized=self.materialized(),
        )

    # -- groups

    def count(self) -> Any:
        return self.of.count(name=self.name, materialized=self.materialized())

    def reduce(self) -> Any:
        reducer = named.REDUCERS[self.function]
        return self.of.reduce(reducer, name=self.name, materialized=self.materialized())

    def reduce_of_KGroupedTable(self) -> Any:
        adder, subtractor = named.REDUCERS[self.function], named.REDUCERS[self.step["subtract"]]
        return self.of.reduce(adder, subtractor, name=self.name, materialized=self.materialized())

    def aggregate(self) -> Any:
        more = [named.MERGERS[self.step["merge"]]] if "merge" in self.step else []
        return self.of.aggregate(
            self._initial(), named.AGGREGATORS[self.function], *more, name=self.name, materialized=self.materialized()
        )

    def aggregate_of_KGroupedTable(self) -> Any:
        adder, subtractor = named.AGGREGATORS[self.function], named.AGGREGATORS[self.step["subtract"]]
        return self.of.aggregate(self._initial(), adder, subtractor, name=self.name, materialized=self.materialized())

    def aggregate_of_CogroupedKStream(self) -> Any:
        return self.of.aggregate(self._initial(), name=self.name, materialized=self.materialized())

    def aggregate_of_WindowedCogroupedKStream(self) -> Any:
        more = [named.MERGERS[self.step["merge"]]] if "merge" in self.step else []
        return self.of.aggregate(self._initial(), *more, name=self.name, materialized=self.materialized())

    def _initial(self) -> Callable[[], Any]:
        return lambda: named.INITIAL[self.step["initial"]]

    def cogroup(self) -> Any:
        return self.of.cogroup(named.AGGREGATORS[self.function])

    def cogroup_of_CogroupedKStream(self) -> Any:
        return self.of.cogroup(self.other, named.AGGREGATORS[self.function])

    def windowed_by(self) -> Any:
        windowed = self.of.windowed_by(_windows(self.step["windows"]))
        if "emit" not in self.step:
            return windowed
        chosen = EmitStrategy.on_window_close() if self.step["emit"] == "close" else EmitStrategy.on_window_update()
        return windowed.emit_strategy(chosen)
