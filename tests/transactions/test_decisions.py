"""The transaction coordinator's decisions, by plain calls; the codes are those that Kafka 4.3 answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import ErrorCode, KafkaError, Millis, ProducerEpoch, ProducerId, TopicPartition
from ottla.config import BrokerConfig
from ottla.transactions import (
    Decision,
    DecisionContext,
    OpenTransactions,
    Outcome,
    Shard,
    Status,
    Transaction,
    add_partitions,
    complete,
    describe,
    end_transaction,
    expired,
    fence,
    initialise,
    list_transactions,
    unknown_states,
    verify_partitions,
)
from ottla.wire import Record
from ottla.wire.messages.list_transactions import ListTransactionsRequest

SETTINGS = BrokerConfig.load(environment={}).settings
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DAY_MS = 86_400_000


@dataclass
class World:
    """One transactional id and its shard, whose decisions go through records as they do in a broker."""

    version: int = 2
    now_ms: int = 1_000_000
    next_id: int = 100
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shard = Shard(lambda: self.version, lambda shard: None)

    @property
    def context(self) -> DecisionContext:
        return DecisionContext(Millis(self.now_ms), SETTINGS, self.version, self._take)

    def _take(self) -> ProducerId:
        self.next_id += 1
        return ProducerId(self.next_id - 1)

    @property
    def found(self) -> Transaction | None:
        return self.shard.state.get("a")

    @property
    def status(self) -> Status:
        assert self.found is not None
        return self.found.status

    def do(self, decision: Decision) -> Outcome:
        self.log += self.shard.encode(decision)
        self.shard.applied(decision, 0)
        assert decision.response is not None
        return decision.response

    def init(self, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000) -> Outcome:
        known = None if expected is None else (ProducerId(expected[0]), ProducerEpoch(expected[1]))
        return self.do(initialise(self.found, "a", timeout_ms, known, self.context))

    def add(self, producer: Outcome, *partitions: TopicPartition, client: int = 2) -> Outcome:
        return self.do(
            add_partitions(
                self.found,
                producer.producer_id,
                producer.epoch,
                frozenset(partitions or (T0,)),
                self.context,
                client_version=client,
            )
        )

    def end(self, producer: Outcome, *, commit: bool, client: int = 2) -> Outcome:
        return self.do(
            end_transaction(
                self.found, producer.producer_id, producer.epoch, self.context, commit=commit, client_version=client
            )
        )

    def complete(self) -> None:
        assert self.found is not None
        self.do(complete(self.found, self.found.producer_id, self.found.epoch, self.context))

    def put(self, **changes: object) -> None:
        """Begin from a state that would take long to reach."""
        assert self.found is not None
        self.shard.state = self.shard.state.set("a", replace(self.found, **changes))

    def reloaded(self) -> Shard:
        """Return a shard that has read what this one wrote."""
        shard = Shard(lambda: self.version, lambda shard: None)
        for key, value in self.log:
            shard.replay(Record(key=key, value=value), -1)
        return shard


def refusal(attempt: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        attempt()
    return caught.value.code


def begun(world: World, *, client: int = 2) -> Outcome:
    """Return a producer with an open transaction."""
    producer = world.init()
    world.add(producer, client=client)
    return producer


# -- beginning


def test_a_new_transactional_id_gets_a_producer_id_of_its_own_and_epoch_0() -> None:
    world = World()
    assert world.init() == Outcome(ErrorCode.NONE, ProducerId(100), ProducerEpoch(0))
    assert world.status is Status.EMPTY


def test_each_initialisation_bumps_the_epoch_and_fences_the_producer_before() -> None:
    world = World()
    old = world.init()
    new = world.init()
    assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 1)
    assert refusal(lambda: world.add(old)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_beyond_what_the_broker_allows_is_refused(timeout_ms: int) -> None:
    assert refusal(lambda: World().init(timeout_ms=timeout_ms)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_empty_transactional_id_is_refused() -> None:
    assert refusal(lambda: initialise(None, "", 1, None, World().context)) is ErrorCode.INVALID_REQUEST


def test_an_open_transaction_is_aborted_first_and_the_new_producer_asks_again() -> None:
    world = World()
    old = begun(world)
    assert world.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.status is Status.PREPARE_ABORT
    assert refusal(world.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(lambda: world.end(old, commit=True)) in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
    world.complete()
    assert world.status is Status.COMPLETE_ABORT
    assert world.init().epoch == old.epoch + 2


def test_a_producer_that_gives_its_epoch_goes_on_with_the_next_and_may_ask_again() -> None:
    world = World()
    first = world.init()
    second = world.init((first.producer_id, first.epoch))
    assert second.epoch == first.epoch + 1
    assert world.init((first.producer_id, first.epoch)) == second


def test_a_producer_whose_epoch_is_older_than_the_last_is_fenced() -> None:
    world = World()
    first = world.init()
    world.init()
    assert refusal(lambda: world.init((first.producer_id, first.epoch))) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: world.init((7, 0))) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_nobody_knows_any_more_begins_anew_with_whatever_epoch_it_gives() -> None:
    world = World()
    assert world.init((5, 3)) == Outcome(ErrorCode.NONE, ProducerId(100), ProducerEpoch(0))


def test_used_up_epochs_give_a_new_producer_id() -> None:
    world = World()
    world.init()
    world.put(epoch=ProducerEpoch(32766))
    assert world.init() == Outcome(ErrorCode.NONE, ProducerId(101), ProducerEpoch(0))
    assert world.found is not None
    assert world.found.previous_producer_id == 100


def test_a_fence_may_take_the_last_epoch_which_no_client_ever_gets() -> None:
    world = World()
    begun(world)
    world.put(epoch=ProducerEpoch(32766))
    assert world.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.found is not None
    assert world.found.epoch == 32767
    world.complete()
    assert refusal(lambda: world.init((100, 32766))) is ErrorCode.PRODUCER_FENCED
    assert world.init() == Outcome(ErrorCode.NONE, ProducerId(101), ProducerEpoch(0))


# -- adding


def test_partitions_are_added_to_the_open_transaction_and_its_start_stays() -> None:
    world = World()
    producer = begun(world)
    began_ms = world.now_ms
    world.now_ms += 5
    world.add(producer, T1)
    assert world.found is not None
    assert world.found.partitions == {T0, T1}
    assert (world.found.started_ms, world.found.updated_ms) == (began_ms, began_ms + 5)


def test_what_is_there_already_is_not_written_again() -> None:
    world = World()
    producer = begun(world)
    written = len(world.log)
    assert world.add(producer) == Outcome()
    assert len(world.log) == written


def test_strangers_and_the_fenced_may_not_add() -> None:
    world = World()
    producer = world.init()
    stranger = producer._replace(producer_id=ProducerId(9))
    assert refusal(lambda: world.add(stranger)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: world.add(producer._replace(epoch=ProducerEpoch(1)))) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: World().add(producer)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_nothing_is_added_while_the_markers_are_being_written() -> None:
    world = World()
    producer = begun(world)
    producer = world.end(producer, commit=True)
    assert refusal(lambda: world.add(producer)) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.complete()
    assert world.add(producer, T1) == Outcome()
    assert world.found is not None
    assert world.found.partitions == {T1}


def test_verifying_tells_each_partition_that_is_not_in_the_transaction() -> None:
    world = World()
    producer = begun(world)
    found = verify_partitions(world.found, producer.producer_id, producer.epoch, [T0, T1])
    assert found == {T0: ErrorCode.NONE, T1: ErrorCode.TRANSACTION_ABORTABLE}


# -- ending, first protocol


@pytest.mark.parametrize("commit", [True, False])
def test_first_protocol_ends_keep_the_epoch_and_may_be_asked_again(commit: bool) -> None:
    world = World()
    producer = begun(world, client=0)
    assert world.end(producer, commit=commit, client=0) == Outcome()
    assert refusal(lambda: world.end(producer, commit=commit, client=0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(lambda: world.end(producer, commit=not commit, client=0)) is ErrorCode.INVALID_TXN_STATE
    world.complete()
    assert world.end(producer, commit=commit, client=0) == Outcome()
    assert refusal(lambda: world.end(producer, commit=not commit, client=0)) is ErrorCode.INVALID_TXN_STATE
    assert world.found is not None
    assert world.found.epoch == producer.epoch


def test_first_protocol_has_nothing_to_end_where_nothing_was_added() -> None:
    world = World()
    producer = world.init()
    for commit in (True, False):
        assert refusal(lambda: world.end(producer, commit=commit, client=0)) is ErrorCode.INVALID_TXN_STATE  # noqa: B023


# -- ending, second protocol (KIP-890)


@pytest.mark.parametrize("commit", [True, False])
def test_second_protocol_ends_bump_the_epoch_and_may_be_asked_again_with_the_old_one(commit: bool) -> None:
    world = World()
    old = begun(world)
    new = world.end(old, commit=commit)
    assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 1)
    assert refusal(lambda: world.end(old, commit=commit)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(lambda: world.end(old, commit=not commit)) is ErrorCode.INVALID_TXN_STATE
    world.complete()
    assert world.end(old, commit=commit) == new
    assert refusal(lambda: world.end(old, commit=not commit)) is ErrorCode.INVALID_TXN_STATE
    assert refusal(lambda: world.add(old)) is ErrorCode.PRODUCER_FENCED


def test_second_protocol_aborts_where_nothing_was_added_and_commits_nothing() -> None:
    world = World()
    producer = world.init()
    assert refusal(lambda: world.end(producer, commit=True)) is ErrorCode.INVALID_TXN_STATE
    world.now_ms += 3
    aborted = world.end(producer, commit=False)
    assert aborted.epoch == producer.epoch + 1
    assert world.found is not None
    assert (world.found.partitions, world.found.started_ms) == (frozenset(), world.now_ms)
    world.complete()
    assert refusal(lambda: world.end(aborted, commit=True)) is ErrorCode.INVALID_TXN_STATE


def test_second_protocol_gives_a_new_producer_id_with_the_last_epochs_end() -> None:
    world = World()
    producer = begun(world)
    world.put(epoch=ProducerEpoch(32766))
    last = producer._replace(epoch=ProducerEpoch(32766))
    after = world.end(last, commit=True)
    assert after == Outcome(ErrorCode.NONE, ProducerId(101), ProducerEpoch(0))
    assert world.found is not None
    assert (world.found.epoch, world.found.next_producer_id) == (32767, 101)
    world.complete()
    assert (world.found.producer_id, world.found.epoch, world.found.previous_producer_id) == (101, 0, 100)
    assert world.end(last, commit=True) == after


def test_a_rotation_survives_that_the_level_is_lowered_and_the_coordinator_moves() -> None:
    """The producer goes on with the id that the answer has told it, so the record has to say it."""
    world = World()
    producer = begun(world)
    world.put(epoch=ProducerEpoch(32766))
    world.version = 0
    after = world.end(producer._replace(epoch=ProducerEpoch(32766)), commit=True)
    assert after == Outcome(ErrorCode.NONE, ProducerId(101), ProducerEpoch(0))
    world.shard = world.reloaded()
    world.complete()
    assert world.found is not None
    assert (world.found.producer_id, world.found.epoch) == (101, 0)
    world.add(after, client=0)


def test_a_producer_whose_last_epoch_timed_out_goes_on_with_a_new_producer_id() -> None:
    world = World()
    producer = begun(world)
    world.put(epoch=ProducerEpoch(32766))
    last = producer._replace(epoch=ProducerEpoch(32766))
    assert world.found is not None
    world.do(Decision(Outcome(), (fence(world.found, world.context),)))
    world.complete()
    assert world.end(last, commit=False) == Outcome(ErrorCode.NONE, ProducerId(101), ProducerEpoch(0))
    assert world.end(last, commit=False) == Outcome(ErrorCode.NONE, ProducerId(101), ProducerEpoch(0))
    assert refusal(lambda: world.end(last, commit=True)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("ends", ["by time", "by its producer"])
def test_a_transaction_with_the_very_last_epoch_ends_and_its_producer_gets_a_new_id(ends: str) -> None:
    """Earlier versions let producers go on with it, so logs have such transactions."""
    world = World()
    producer = begun(world)
    world.put(epoch=ProducerEpoch(32767))
    last = producer._replace(epoch=ProducerEpoch(32767))
    assert world.found is not None
    if ends == "by time":
        world.do(Decision(Outcome(), (fence(world.found, world.context),)))
    else:
        assert world.end(last, commit=True) == Outcome(ErrorCode.NONE, ProducerId(101), ProducerEpoch(0))
    assert world.reloaded().state.get("a") is not None
    assert (world.found.epoch, world.found.client_version) == (32767, 0), "its marker may have the records' epoch"
    world.complete()
    assert world.init().epoch in (0, 1)
    assert world.found.producer_id == 101


def test_only_the_producer_itself_ends_its_transaction() -> None:
    world = World()
    producer = begun(world)
    for client in (0, 2):
        stranger = producer._replace(producer_id=ProducerId(9))
        late = producer._replace(epoch=ProducerEpoch(5))
        found = [
            refusal(lambda: world.end(stranger, commit=True, client=client)),  # noqa: B023
            refusal(lambda: world.end(late, commit=True, client=client)),  # noqa: B023
        ]
        assert found == [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED]
    assert refusal(lambda: World().end(producer, commit=True)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_completing_what_is_complete_changes_nothing() -> None:
    world = World()
    world.end(begun(world), commit=True)
    world.complete()
    written = len(world.log)
    world.complete()
    assert len(world.log) == written


# -- time


def test_only_open_transactions_time_out() -> None:
    world = World()
    begun(world)
    assert world.found is not None
    known = OpenTransactions()
    assert not _late(known, world, 0, 0)
    assert not _late(known, world, 60_000, 60_000)
    assert _late(known, world, 60_001, 60_001)
    world.init()
    assert not _late(known, world, 120_002, 120_002)


def _late(known: OpenTransactions, world: World, steady_ms: int, passed_ms: int) -> bool:
    """Look once at the world's transaction, and return whether its time is over; times count from the world's."""
    now_ms = Millis(world.now_ms + steady_ms)
    known.begin_round(now_ms)
    assert world.found is not None
    late = known.timed_out([world.found], now_ms=now_ms, wall_ms=Millis(world.now_ms + passed_ms))
    known.end_round()
    return bool(late)


def test_a_clock_that_is_set_ends_no_transaction_and_keeps_none_open() -> None:
    hour_ms = 3_600_000
    world = World()
    known = OpenTransactions()
    known.begin_round(Millis(world.now_ms - 10_000))
    known.end_round()
    begun(world)
    assert not _late(known, world, 0, hour_ms), "it is at most as old as the last round"
    assert not _late(known, world, 49_000, hour_ms)
    assert _late(known, world, 60_001, -hour_ms)


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 0, 59_000, 3_600_000])
def test_a_coordinator_that_takes_over_ends_no_transaction_by_another_machines_clock(ahead_ms: int) -> None:
    world = World()
    begun(world)
    known = OpenTransactions()
    assert not _late(known, world, 5_000_000, ahead_ms)
    assert not _late(known, world, 5_060_000, ahead_ms + 60_000)
    assert _late(known, world, 5_060_001, ahead_ms + 60_001)


def test_ids_at_rest_expire_and_open_ones_do_not() -> None:
    world = World()
    producer = world.init()
    world.now_ms += 7 * DAY_MS
    assert world.found is not None
    assert expired([world.found], world.context) == ["a"]
    world.add(producer)
    world.now_ms += 8 * DAY_MS
    assert expired([world.found], world.context) == []
    world.do(Decision(Outcome(), forgotten=("a",)))
    assert world.found is None
    assert world.reloaded().state.get("a") is None


# -- what admins see


def test_a_description_names_state_and_the_topics_that_the_asker_may_know() -> None:
    world = World()
    begun(world)
    found = describe(world.found, "a", lambda topic: True)
    assert (found.transaction_state, found.error_code) == ("Ongoing", 0)
    assert [(each.topic, list(each.partitions)) for each in found.topics] == [("t", [0])]
    assert not describe(world.found, "a", lambda topic: False).topics
    assert describe(None, "b", lambda topic: True).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert describe(None, "", lambda topic: True).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("request_", "is_listed"),
    [
        (ListTransactionsRequest(), True),
        (ListTransactionsRequest(state_filters=["Ongoing"]), True),
        (ListTransactionsRequest(state_filters=["Empty"]), False),
        (ListTransactionsRequest(producer_id_filters=[100]), True),
        (ListTransactionsRequest(producer_id_filters=[1]), False),
        (ListTransactionsRequest(duration_filter=9), True),
        (ListTransactionsRequest(duration_filter=10), False),
        (ListTransactionsRequest(transactional_id_pattern="[ab]"), True),
        (ListTransactionsRequest(transactional_id_pattern="b.*"), False),
        (ListTransactionsRequest(transactional_id_pattern=""), True),
    ],
)
def test_filters_of_a_listing(request_: ListTransactionsRequest, is_listed: bool) -> None:
    world = World()
    begun(world)
    assert world.found is not None
    assert bool(list_transactions([world.found], request_, world.now_ms + 10)) is is_listed


def test_a_listing_names_unknown_states_and_bad_patterns() -> None:
    request = ListTransactionsRequest(state_filters=["Ongoing", "Sleeping"])
    assert unknown_states(request) == ["Sleeping"]
    bad = ListTransactionsRequest(transactional_id_pattern="(")
    assert refusal(lambda: list_transactions([], bad, 0)) is ErrorCode.INVALID_REGULAR_EXPRESSION


# -- folding

_STEPS = st.lists(st.sampled_from(["init", "add", "commit", "abort", "complete", "tick", "old", "first"]), max_size=30)


@given(_STEPS, st.sampled_from([0, 1, 2]))
def test_records_say_everything_but_who_may_have_missed_an_answer(steps: list[str], version: int) -> None:
    world = World(version=version)
    producer = Outcome()
    client = 0 if version < 2 else 2
    for step in steps:
        try:
            match step:
                case "init":
                    answer = world.init()
                    producer = producer if answer.code else answer
                case "add":
                    world.add(producer, T1, client=client)
                case "commit" | "abort":
                    answer = world.end(producer, commit=step == "commit", client=client)
                    producer = answer if client else producer
                case "complete" if world.found is not None:
                    world.complete()
                case "old":
                    world.add(producer._replace(epoch=ProducerEpoch(producer.epoch - 1)), client=client)
                case _:
                    world.now_ms += 1
        except KafkaError as error:
            assert error.code is not ErrorCode.UNKNOWN_SERVER_ERROR
        found, again = world.found, world.reloaded().state.get("a")
        assert (found is None) == (again is None)
        if found is not None and again is not None:
            kept = {"last_epoch": again.last_epoch}
            if version == 0:  # its records have no room for these
                kept |= {
                    "previous_producer_id": again.previous_producer_id,
                    "next_producer_id": again.next_producer_id,
                    "client_version": again.client_version,
                }
            assert replace(found, **kept) == again  # type: ignore[arg-type]


@given(_STEPS)
def test_an_epoch_never_comes_back(steps: list[str]) -> None:
    world = World()
    seen: list[tuple[int, int]] = []
    producer = Outcome()
    for step in steps:
        try:
            match step:
                case "init":
                    answer = world.init()
                    producer = producer if answer.code else answer
                case "add":
                    world.add(producer)
                case "commit" | "abort":
                    producer = world.end(producer, commit=step == "commit")
                case "complete" if world.found is not None:
                    world.complete()
                case _:
                    world.now_ms += 70_000
        except KafkaError:
            continue
        if world.found is not None:
            seen.append((world.found.producer_id, world.found.epoch))
    assert seen == sorted(seen)
