"""Whatever is written and whenever it is cleaned: the latest value of each key is there, at its offset."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ottla.wire import Codec
from tests.log.cleaning import COMPACT, Bench

KEYS = [b"%d" % at for at in range(8)]
STEP = st.one_of(
    st.tuples(
        st.just("put"),
        st.lists(
            st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=40))), min_size=1, max_size=5
        ),
        st.sampled_from(list(Codec)),
        st.sampled_from([-1, 7, 8]),
    ),
    st.tuples(st.just("roll"), st.none(), st.none(), st.none()),
    st.tuples(st.just("clean"), st.sampled_from([24 * 4, 24 * 100]), st.none(), st.none()),
    st.tuples(st.just("wait"), st.integers(1, 900), st.none(), st.none()),
    st.tuples(st.just("reopen"), st.booleans(), st.none(), st.none()),
    st.tuples(st.just("truncate"), st.integers(1, 12), st.none(), st.none()),
)


class Model:
    """What a dictionary says of the log."""

    def __init__(self) -> None:
        self.written: dict[int, tuple[bytes, bytes | None]] = {}
        self.sequences = {7: 0, 8: 0}
        self.cut: set[int] = set()
        """Producers whose last batch was truncated."""

    def latest(self) -> dict[bytes, bytes]:
        values: dict[bytes, bytes] = {}
        for offset in sorted(self.written):
            key, value = self.written[offset]
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        return values


INSIDE_A_BATCH = [
    ("put", [(b"0", None), (b"1", None), (b"2", b"")], Codec.NONE, -1),
    ("put", [(b"2", None), (b"3", None)], Codec.NONE, -1),
    ("roll", None, None, None),
    ("clean", 24 * 4, None, None),  # its map is full with the last batch's first key
    ("put", [(b"0", None)], Codec.NONE, -1),
    ("truncate", 2, None, None),
]
LAST_BATCH_CUT = [
    ("put", [(b"0", None)], Codec.NONE, 8),
    ("put", [(b"0", None)], Codec.NONE, -1),
    ("roll", None, None, None),
    ("put", [(b"0", None)], Codec.NONE, 8),
    ("clean", 24 * 4, None, None),
    ("truncate", 1, None, None),
]


@example(INSIDE_A_BATCH)
@example(LAST_BATCH_CUT)
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=5, max_size=60))
def test_compaction_never_changes_what_a_dictionary_of_the_log_says(
    steps: list[tuple[str, object, object, object]],
) -> None:
    bench, model = Bench(replace(COMPACT, segment_bytes=400, index_interval_bytes=50)), Model()
    for kind, what, codec, producer in steps:
        take(bench, model, kind, what, codec, producer)
    bench.seal()
    bench.clean()
    check(bench, model)
    check_sequences(bench, model)


def take(bench: Bench, model: Model, kind: str, what: object, codec: object, producer: object) -> None:
    if kind == "put":
        put(bench, model, what, codec, producer)  # type: ignore[arg-type]
    elif kind == "roll":
        bench.log.roll(bench.now)
    elif kind == "clean":
        bench.log.flush()
        bench.clean(map_bytes=what)  # type: ignore[arg-type]
        check(bench, model)
    elif kind == "wait":
        bench.now += what  # type: ignore[operator]
    elif kind == "reopen":
        bench.reopen(crash=bool(what))
        check(bench, model)
    else:
        truncate(bench, model, what)  # type: ignore[arg-type]


def put(bench: Bench, model: Model, pairs: list[tuple[bytes, bytes | None]], codec: Codec, producer_id: int) -> None:
    sequence = model.sequences.get(producer_id, -1)
    producer = (producer_id, 0 if producer_id > 0 else -1, sequence)
    first = bench.put(*pairs, codec=codec, producer=producer)
    model.written.update({first + at: pair for at, pair in enumerate(pairs)})
    if producer_id > 0:
        model.sequences[producer_id] += len(pairs)
        model.cut.discard(producer_id)


def truncate(bench: Bench, model: Model, back: int) -> None:
    """Cut what no cleaning has seen: below, values are gone that the cut ones had superseded, in Kafka as well.

    A cleaning whose map is full ends inside a batch. That lies below the high watermark, which is a batch's end.
    """
    log = bench.log
    seen = max(log.cleaned_to, log.log_start_offset)
    seen = next((each.next_offset for each, _ in bench.batches() if each.base_offset < seen < each.next_offset), seen)
    log.truncate_to(max(log.log_end_offset - back, seen))
    model.written = {at: pair for at, pair in model.written.items() if at < log.log_end_offset}
    for producer_id, before in model.sequences.items():
        entry = log.producers.entries.get(producer_id)
        model.sequences[producer_id] = following = entry.last_sequence + 1 if entry else 0
        if following != before:
            model.cut.add(producer_id)


def check(bench: Bench, model: Model) -> None:
    records = bench.records()
    assert [each.offset for each in records] == sorted({each.offset for each in records})
    assert all(model.written[each.offset] == (each.key, each.value) for each in records)
    assert {key: value for key, value in bench.values().items() if value is not None} == model.latest()
    assert bench.log.log_end_offset == max(model.written, default=-1) + 1 or not model.written


def check_sequences(bench: Bench, model: Model) -> None:
    """A start that knows nothing but the batches tells the producers' next sequence numbers all the same.

    But for those whose last batch was truncated: a cleaning has kept that one, and no earlier one, empty, as in Kafka. A
    producer that is not known may begin anywhere.
    """
    for name in bench.files():
        if name.endswith(".snapshot"):
            bench.disk.unlink(f"{bench.log.folder}/{name}")
    bench.reopen()
    for producer_id, following in model.sequences.items():
        entry = bench.log.producers.entries.get(producer_id)
        assert (entry.last_sequence + 1 if entry else 0) == following or (entry is None and producer_id in model.cut)
