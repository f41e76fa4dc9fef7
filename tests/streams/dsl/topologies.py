"""The topologies of `tests/peer/streams/Describe.java`, made with the DSL: the two must describe the same text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ottla.streams import (
    FixedKeyProcessor,
    JoinWindows,
    Materialized,
    Processor,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyBuilder,
    UnlimitedWindows,
    ValueTransformer,
)
from ottla.streams.dsl.parameters import BufferConfig

__all__ = ["OPTIMIZED", "PLANS", "made"]

PLANS: dict[str, Callable[[StreamsBuilder], object]] = {}
OPTIMIZED: list[str] = []
"""Those that are described with every optimisation too, under `optimized-<name>`."""

TUMBLING = TimeWindows.of_size_with_no_grace(minutes=1)
SLIDING = SlidingWindows.of_difference_with_no_grace("1m")
SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace("PT1M")
JOINED = JoinWindows.of_time_difference_with_no_grace(60_000)
UNNAMED = Materialized()


def plan(build: Callable[[StreamsBuilder], object]) -> Callable[[StreamsBuilder], object]:
    PLANS[build.__name__.replace("_", "-")] = build
    return build


def both(build: Callable[[StreamsBuilder], object]) -> Callable[[StreamsBuilder], object]:
    OPTIMIZED.append(build.__name__.replace("_", "-"))
    return plan(build)


def made(name: str) -> Topology:
    """Return a topology by its name."""
    if name == "topology-builder":
        return by_hand()
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    PLANS[name.removeprefix("optimized-")](builder)
    return builder.build({"topology.optimization": "all" if name.startswith("optimized-") else "none"})


def yes(k: Any, v: Any) -> bool:
    return True


def same(v: Any) -> Any:
    return v


def swap(k: Any, v: Any) -> tuple[Any, Any]:
    return v, k


def left(v: Any, w: Any) -> Any:
    return v


def latest(a: Any, v: Any) -> Any:
    return v


def fold(k: Any, v: Any, a: Any) -> Any:
    return a


def store(name: str) -> Any:
    return Stores.key_value_store(name, str, str)


class Nothing(Processor[Any, Any, Any, Any]):
    pass


class WithStore(Nothing):
    @staticmethod
    def stores() -> Any:
        return [store("brought")]


class Fixed(FixedKeyProcessor[Any, Any, Any]):
    pass


class Transform(ValueTransformer[Any, Any, Any]):
    pass


# -- streams


@plan
def word_count(b: StreamsBuilder) -> None:
    b.stream("lines").flat_map_values(lambda v: [v]).group_by(same).count().to_stream().to("counts")


@plan
def stateless(b: StreamsBuilder) -> None:
    s = b.stream("in").filter(yes).filter_not(yes).map_values(same).peek(same)
    s.map(swap).flat_map(lambda k, v: [(k, v)]).select_key(same).to("out")
    s.flat_map_values(lambda v: [v]).foreach(same)
    s.print()


@plan
def stateless_named(b: StreamsBuilder) -> None:
    s = b.stream("in", name="read").filter(yes, name="keep").filter_not(yes, name="drop")
    s = s.map_values(same, name="change").peek(same, name="look")
    s.map(swap, name="map").flat_map(lambda k, v: [(k, v)], name="flat").select_key(same, name="key").to(
        "out", name="write"
    )
    s.flat_map_values(lambda v: [v], name="values").foreach(same, name="each")
    s.filter(yes).to("unnamed")


@plan
def several_topics(b: StreamsBuilder) -> None:
    b.stream("one", "two", "three").to("out")
    b.stream(re.compile("logs-.*")).to("all-logs")


@plan
def same_topic_twice(b: StreamsBuilder) -> None:
    one, two = b.stream("in"), b.stream("in")
    one.map_values(same).to("a")
    two.filter(yes).to("b")
    b.stream("other").to("c")


@plan
def merge(b: StreamsBuilder) -> None:
    one, two = b.stream("a"), b.stream("b")
    one.merge(two).merge(b.stream("c"), name="all").to("out")


@plan
def split(b: StreamsBuilder) -> None:
    branches = b.stream("in").split().branch(yes).branch(yes).default_branch()
    branches["KSTREAM-BRANCH-00000000011"].to("first")
    branches["KSTREAM-BRANCH-00000000010"].map_values(same).to("rest")
    branches["KSTREAM-BRANCH-00000000012"].to("second")


@plan
def split_named(b: StreamsBuilder) -> None:
    split = b.stream("in").split(name="by-size-").branch(yes, name="big")
    split.branch(yes, name="middle", to=lambda s: s.to("middle"))
    branches = split.branch(yes, name="small", to=lambda s: s.map_values(same)).no_default_branch()
    assert list(branches) == ["by-size-big", "by-size-small"]
    branches["by-size-small"].to("small")
    branches["by-size-big"].to("big")


@plan
def repartition(b: StreamsBuilder) -> None:
    b.stream("in").repartition().map_values(same).repartition(name="again", partitions=3).to("out")


@plan
def to_table(b: StreamsBuilder) -> None:
    b.stream("in").to_table().to_stream().to("a")
    rekeyed = b.stream("other").select_key(same)
    rekeyed.to_table(name="latest", materialized="latest-store").to_stream(name="changes").to("b")
    b.stream("third").select_key(same).to_table().to_stream().to("c")


@plan
def re_keyed_twice(b: StreamsBuilder) -> None:
    counts = b.stream("in").select_key(same).group_by_key().count()
    counts.to_stream().select_key(same).group_by_key().count().to_stream().to("out")


# -- grouped


@plan
def count_by_key(b: StreamsBuilder) -> None:
    b.stream("in").group_by_key().count().to_stream().to("out")


@plan
def count_materialized_without_name(b: StreamsBuilder) -> None:
    b.stream("in").group_by_key().count(
        materialized=Materialized(key_serde="string", value_serde="long")
    ).to_stream().to("out")


@plan
def count_named(b: StreamsBuilder) -> None:
    counts = b.stream("in").group_by(same, name="by-value").count(name="counting", materialized="counts")
    counts.to_stream().to("out")


@plan
def reduce(b: StreamsBuilder) -> None:
    grouped = b.stream("in").group_by(same)
    grouped.reduce(latest).to_stream().to("a")
    grouped.reduce(latest, name="latest", materialized="latest-store").to_stream().to("b")


@plan
def aggregate(b: StreamsBuilder) -> None:
    grouped = b.stream("in").select_key(same).group_by_key(name="shared")
    grouped.aggregate("", fold).to_stream().to("a")
    grouped.aggregate("", fold, name="folded", materialized="folds").to_stream().to("b")
    grouped.count().to_stream().to("c")


@plan
def cogroup(b: StreamsBuilder) -> None:
    one, two = b.stream("one").group_by_key(), b.stream("two").group_by(same)
    three = b.stream("three").select_key(same).group_by_key(name="third")
    one.cogroup(fold).cogroup(two, fold).cogroup(three, fold).aggregate("").to_stream().to("out")


@plan
def cogroup_named(b: StreamsBuilder) -> None:
    one, two = b.stream("one").group_by_key(), b.stream("two").group_by_key()
    one.cogroup(fold).cogroup(two, fold).aggregate("", name="both", materialized="both-store").to_stream().to("out")


@plan
def cogroup_windowed(b: StreamsBuilder) -> None:
    one, two = b.stream("one").group_by_key(), b.stream("two").group_by(same)
    together = one.cogroup(fold).cogroup(two, fold)
    together.windowed_by(TUMBLING).aggregate("").to_stream().to("a")
    together.windowed_by(SESSIONS).aggregate("", fold).to_stream().to("b")
    together.windowed_by(SLIDING).aggregate("").to_stream().to("c")


# -- windows


@plan
def tumbling_count(b: StreamsBuilder) -> None:
    b.stream("in").group_by_key().windowed_by(TUMBLING).count().to_stream().to("out")


@plan
def windowed_materialized_without_name(b: StreamsBuilder) -> None:
    grouped = b.stream("in").group_by_key()
    grouped.windowed_by(TUMBLING).count(materialized=UNNAMED).to_stream().to("a")
    grouped.windowed_by(SLIDING).count(materialized=UNNAMED).to_stream().to("b")
    grouped.windowed_by(SESSIONS).count(materialized=UNNAMED).to_stream().to("c")


@plan
def hopping_reduce(b: StreamsBuilder) -> None:
    windows = TimeWindows.of_size("1m", grace="1m").advance_by(seconds=10)
    grouped = b.stream("in").group_by(same).windowed_by(windows)
    grouped.reduce(latest, name="latest", materialized="latest-store").to_stream().to("out")


@plan
def sliding_aggregate(b: StreamsBuilder) -> None:
    grouped = b.stream("in").group_by(same).windowed_by(SlidingWindows.of_difference("1m", grace="1m"))
    grouped.aggregate("", fold).to_stream().to("out")


@plan
def session(b: StreamsBuilder) -> None:
    sessions = b.stream("in").group_by_key().windowed_by(SessionWindows.of_inactivity_gap("1m", grace="1m"))
    sessions.count().to_stream().to("a")
    sessions.reduce(latest).to_stream().to("b")
    sessions.aggregate("", fold, fold, name="folded", materialized="folds").to_stream().to("c")


@plan
def unlimited(b: StreamsBuilder) -> None:
    b.stream("in").group_by_key().windowed_by(UnlimitedWindows.of()).count().to_stream().to("out")


@plan
def emit_on_close(b: StreamsBuilder) -> None:
    windowed = b.stream("in").group_by_key().windowed_by(TUMBLING).emit_strategy("on_window_close")
    windowed.count().to_stream().to("out")


@plan
def suppress_until_close(b: StreamsBuilder) -> None:
    counts = b.stream("in").group_by_key().windowed_by(TUMBLING).count()
    closed = counts.suppress(Suppressed.until_window_closes()).filter(yes)
    closed.to_stream(lambda k, v: str(k)).to("out")


@plan
def suppress_time_limit(b: StreamsBuilder) -> None:
    counts = b.stream("in").group_by_key().count()
    counts.suppress(Suppressed.until_time_limit("1m", BufferConfig.of_max_records(10))).to_stream().to("a")
    slow = Suppressed.until_time_limit("1m", BufferConfig.of_max_bytes(10)).with_name("slow")
    counts.suppress(slow).to_stream().to("b")


@plan
def windowed_then_grouped(b: StreamsBuilder) -> None:
    counts = b.stream("in").group_by_key().windowed_by(TUMBLING).count()
    counts.to_stream().group_by(lambda k, v: str(k)).reduce(latest).to_stream().to("out")


# -- tables


@plan
def table(b: StreamsBuilder) -> None:
    b.table("in").to_stream().to("out")


@plan
def table_named(b: StreamsBuilder) -> None:
    b.table("in", name="users", materialized="users-store").to_stream().to("out")


@plan
def table_steps(b: StreamsBuilder) -> None:
    t = b.table("in")
    t.filter(yes).map_values(same).filter_not(yes).to_stream().to("out")
    t.map_values(same, name="change").filter(yes, name="keep").to_stream(name="go").to("b")


@plan
def table_steps_materialized(b: StreamsBuilder) -> None:
    t = b.table("in")
    t.filter(yes, materialized="kept").map_values(same, materialized="changed").to_stream().to("out")
    t.filter(yes, materialized=UNNAMED).map_values(same, materialized=UNNAMED).to_stream().to("b")


@plan
def table_group_by(b: StreamsBuilder) -> None:
    g = b.table("in").group_by(swap)
    g.count().to_stream().to("a")
    g.reduce(latest, left).to_stream().to("b")
    g.aggregate("", fold, fold).to_stream().to("c")


@plan
def table_group_by_named(b: StreamsBuilder) -> None:
    g = b.table("in").filter(yes).group_by(swap, name="by-value")
    g.count(name="counting", materialized="counts").to_stream().to("a")
    g.aggregate("", fold, fold, name="folding", materialized="folds").to_stream().to("b")


@plan
def table_transform_values(b: StreamsBuilder) -> None:
    b.add_state_store(store("seen"))
    b.table("in").process_values(Transform, "seen").to_stream().to("out")
    b.table("other").process_values(Transform, "seen", name="change", materialized="kept").to_stream().to("out2")


@plan
def versioned(b: StreamsBuilder) -> None:
    t = b.table("in", materialized=Materialized(store=Stores.versioned("history", "1m")))
    b.stream("clicks").join(t, left, name="match", grace="10s").to("out")
    b.stream("views").left_join(t, left, grace="10s").to("out2")


# -- joins


@plan
def stream_join(b: StreamsBuilder) -> None:
    b.stream("a").join(b.stream("b"), left, JOINED).to("out")


@plan
def stream_left_join(b: StreamsBuilder) -> None:
    b.stream("a").left_join(b.stream("b"), left, JOINED).to("out")


@plan
def stream_outer_join(b: StreamsBuilder) -> None:
    b.stream("a").outer_join(b.stream("b"), left, JOINED).to("out")


@plan
def stream_joins_named(b: StreamsBuilder) -> None:
    a, c = b.stream("a"), b.stream("b")
    a.join(c, left, JOINED, stream_joined=StreamJoined(name="inner", store_name="inner-store")).to("x")
    a.left_join(c, left, JOINED, stream_joined=StreamJoined(name="left", store_name="left-store")).to("y")
    a.outer_join(c, left, JOINED, name="outer").to("z")
    a.outer_join(c, left, JOINED, stream_joined=StreamJoined(store_name="only-store")).to("w")


@both
def stream_join_re_keyed(b: StreamsBuilder) -> None:
    a, c = b.stream("a").select_key(same), b.stream("b").select_key(same)
    a.join(c, left, JOINED).to("x")
    a.left_join(c, left, JOINED).to("y")
    a.outer_join(b.stream("c"), left, JOINED, name="named").to("z")


@plan
def stream_self_join(b: StreamsBuilder) -> None:
    a = b.stream("a")
    a.join(a, left, JOINED).to("out")


@plan
def stream_table_join(b: StreamsBuilder) -> None:
    t = b.table("t")
    b.stream("a").join(t, left).to("x")
    b.stream("b").left_join(t, left, name="left").to("y")


@plan
def stream_table_join_re_keyed(b: StreamsBuilder) -> None:
    t = b.table("t").filter(yes)
    a = b.stream("a").select_key(same)
    a.join(t, left).to("x")
    a.left_join(t, left).to("y")
    a.left_join(t, left, name="left").to("z")


@plan
def global_join(b: StreamsBuilder) -> None:
    g = b.global_table("g")
    h = b.global_table("h", name="global", materialized="global-store")
    a = b.stream("a")
    a.join(g, left, key=same).to("x")
    a.left_join(h, left, key=same, name="left").group_by_key().count().to_stream().to("y")


# -- joins of tables


@plan
def table_join(b: StreamsBuilder) -> None:
    a, c = b.table("a"), b.table("b")
    a.join(c, left).to_stream().to("x")


@plan
def table_joins(b: StreamsBuilder) -> None:
    a, c = b.table("a"), b.table("b")
    a.join(c, left, materialized="joined").left_join(b.table("c"), left).to_stream().to("x")
    a.left_join(c, left, name="left").filter(yes).to_stream().to("y")
    a.outer_join(c, left, name="outer", materialized="outer-store").to_stream().to("z")
    a.join(c, left, materialized=UNNAMED).to_stream().to("w")


@plan
def table_join_of_steps(b: StreamsBuilder) -> None:
    a = b.table("a").map_values(same).filter(yes)
    c = b.stream("b").group_by_key().count()
    d = b.stream("d").to_table()
    a.join(c, left).outer_join(d, left).group_by(swap).count().to_stream().to("x")


@plan
def foreign_key_join(b: StreamsBuilder) -> None:
    a, c = b.table("a"), b.table("b")
    a.join(c, left, foreign_key=same).to_stream().to("x")


@plan
def foreign_key_left_join_named(b: StreamsBuilder) -> None:
    a = b.table("a")
    c = b.stream("b").group_by_key().reduce(latest)
    joined = a.left_join(c, left, foreign_key=same, name="orders", materialized="orders-store")
    joined.filter(yes).to_stream().to("x")


@plan
def foreign_key_join_chained(b: StreamsBuilder) -> None:
    a, c, d = b.table("a"), b.table("b"), b.table("c")
    joined = a.join(c, left, foreign_key=same).left_join(d, left, foreign_key=same)
    joined.join(c, left).to_stream().to("x")


@plan
def join_of_suppressed(b: StreamsBuilder) -> None:
    a = b.stream("a").group_by_key().count().suppress(Suppressed.until_time_limit("1m"))
    a.join(b.table("b"), left).to_stream().to("x")


# -- processors


@plan
def process(b: StreamsBuilder) -> None:
    b.add_state_store(store("seen")).add_state_store(store("also"))
    s = b.stream("in")
    s.process(Nothing, "seen", "also").to("x")
    s.process_values(Fixed, "seen", name="values").group_by_key().count().to_stream().to("y")
    s.process(Nothing, name="free").group_by_key().count().to_stream().to("z")
    s.process_values(Fixed)
    s.process(WithStore).to("w")


@plan
def shared_store(b: StreamsBuilder) -> None:
    b.add_state_store(store("seen"))
    b.stream("one").process(Nothing, "seen").to("x")
    b.stream("two").process(Nothing, "seen").to("y")
    b.stream("three").process(Nothing).to("z")


@plan
def global_store(b: StreamsBuilder) -> None:
    b.add_global_store(store("all"), "topic", Nothing)
    b.stream("in").process(Nothing).to("out")


@plan
def many_children(b: StreamsBuilder) -> None:
    s = b.stream("in")
    for index in range(14):
        t = s
        for _ in range(index * 5 % 4):
            t = t.map_values(same)
        t.to(f"out-{index}")
    s.filter(yes).merge(s.map_values(same)).merge(s).to("merged")


@plan
def many_stores(b: StreamsBuilder) -> None:
    names = [f"store-{index}" for index in range(20)]
    for name in names:
        b.add_state_store(store(name))
    b.stream("in").process(Nothing, *names).to("out")


# -- optimisations


@both
def reused_source_topic(b: StreamsBuilder) -> None:
    b.table("in", materialized="kept").to_stream().to("out")
    b.table("other").join(b.table("third"), left).to_stream().to("out2")


@both
def merged_repartitions(b: StreamsBuilder) -> None:
    s = b.stream("in").map(swap)
    s.group_by_key().count().to_stream().to("a")
    s.filter(yes).group_by_key().reduce(latest).to_stream().to("b")
    s.group_by_key().windowed_by(TUMBLING).count().to_stream().to("c")
    s.map_values(same).group_by_key().count().to_stream().to("d")


@both
def merged_repartitions_named(b: StreamsBuilder) -> None:
    s = b.stream("in").select_key(same)
    s.group_by_key(name="first").count().to_stream().to("a")
    s.group_by_key(name="second").reduce(latest).to_stream().to("b")
    s.join(b.stream("other"), left, JOINED).to("c")


@both
def merged_repartitions_behind_merge(b: StreamsBuilder) -> None:
    s = b.stream("one").select_key(same).merge(b.stream("two").select_key(same))
    s.group_by_key().count().to_stream().to("a")
    s.group_by_key().reduce(latest).to_stream().to("b")


@both
def cogroup_of_one_stream(b: StreamsBuilder) -> None:
    s = b.stream("in").select_key(same)
    one, two = s.group_by_key(name="one"), s.filter(yes).group_by_key(name="two")
    one.cogroup(fold).cogroup(two, fold).aggregate("").to_stream().to("out")


def by_hand() -> Topology:
    topology = TopologyBuilder(default_key_serde="string", default_value_serde="string")
    topology.add_source("words", "in", "more").add_source("logs", pattern="logs-.*")
    topology.add_processor("split", Nothing, "words").add_processor("count", Nothing, "split", "logs")
    topology.add_state_store(store("counts"), "count").add_processor("watch", Nothing, "split")
    topology.connect_processor_and_state_stores("watch", "counts")
    return topology.add_sink("write", "out", "count").add_sink("alarm", "alarms", "watch", "count").build()
