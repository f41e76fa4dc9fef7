"""Incremental fetch sessions as KIP-227 describes them."""

from __future__ import annotations

from random import Random

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.replica import FetchedPartition, FetchSessionCache, SessionKey, next_session_epoch
from ottla.replica.sessions import EVICTION_S


def cache(slots: int = 2) -> FetchSessionCache:
    return FetchSessionCache(slots, Random(7))


def wants(*indexes: int, offset: int = 0) -> list[tuple[SessionKey, FetchedPartition]]:
    return [(SessionKey("t", index), FetchedPartition(fetch_offset=offset, max_bytes=100)) for index in indexes]


def make(sessions: FetchSessionCache, *indexes: int, now_s: float = 0.0, privileged: bool = False) -> int:
    session = sessions.create(wants(*indexes), privileged=privileged, uses_topic_ids=False, now_s=now_s)
    return session.id if session is not None else 0


def resume(sessions: FetchSessionCache, id: int, epoch: int, *, ids: bool = False, now_s: float = 0.0) -> None:
    sessions.resume(id, epoch, uses_topic_ids=ids, now_s=now_s)


def test_requests_of_a_session_count_its_epoch() -> None:
    sessions = cache()
    id = make(sessions, 0, 1)
    resume(sessions, id, 1)
    resume(sessions, id, 2)
    with pytest.raises(KafkaError) as caught:
        resume(sessions, id, 2)
    assert caught.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_is_not_found() -> None:
    with pytest.raises(KafkaError) as caught:
        resume(cache(), 5, 1)
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_name_refuses_topic_ids() -> None:
    sessions = cache()
    id = make(sessions, 0)
    with pytest.raises(KafkaError) as caught:
        resume(sessions, id, 1, ids=True)
    assert caught.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_request_adds_changes_and_forgets_partitions() -> None:
    sessions = cache()
    session = sessions.create(wants(0, 1), privileged=False, uses_topic_ids=False, now_s=0)
    assert session is not None
    session.update(wants(1, 2, offset=9), [SessionKey("t", 0)])
    assert [(key.partition, each.fetch_offset) for key, each in session.partitions.items()] == [(1, 9), (2, 9)]


def test_a_partition_that_gave_records_goes_behind_the_others() -> None:
    session = cache().create(wants(0, 1, 2), privileged=False, uses_topic_ids=False, now_s=0)
    assert session is not None
    session.served(SessionKey("t", 0))
    assert [key.partition for key in session.partitions] == [1, 2, 0]


def test_only_partitions_with_news_are_answered() -> None:
    partition = FetchedPartition(fetch_offset=0, max_bytes=100)
    assert partition.must_answer(high_watermark=0, log_start_offset=0, has_news=False)
    assert not partition.must_answer(high_watermark=0, log_start_offset=0, has_news=False)
    assert partition.must_answer(high_watermark=0, log_start_offset=0, has_news=True)
    assert partition.must_answer(high_watermark=4, log_start_offset=0, has_news=False)
    assert partition.must_answer(high_watermark=4, log_start_offset=2, has_news=False)


def test_a_full_cache_makes_no_session_while_the_others_are_young() -> None:
    sessions = cache(slots=1)
    assert make(sessions, 0)
    assert make(sessions, 0, 1, now_s=119) == 0
    assert len(sessions) == 1


def test_a_stale_session_is_evicted() -> None:
    sessions = cache(slots=1)
    old = make(sessions, 0, 1, 2)
    assert make(sessions, 0, now_s=121)
    with pytest.raises(KafkaError):
        resume(sessions, old, 1)
    assert sessions.evictions == 1


def test_a_larger_session_evicts_a_smaller_old_one_in_use() -> None:
    sessions = cache(slots=1)
    id = make(sessions, 0)
    resume(sessions, id, 1, now_s=119)
    assert make(sessions, 0, now_s=125) == 0
    assert make(sessions, 0, 1, now_s=125)


def test_a_follower_evicts_a_consumer_and_never_the_other_way() -> None:
    sessions = cache(slots=1)
    id = make(sessions, 0, 1)
    resume(sessions, id, 1, now_s=119)
    follower = make(sessions, 0, now_s=125, privileged=True)
    assert follower
    resume(sessions, follower, 1, now_s=250)
    assert make(sessions, 0, 1, 2, now_s=251) == 0


def test_the_epoch_wraps_to_one() -> None:
    assert next_session_epoch(2**31 - 1) == 1
    assert next_session_epoch(-1) == -1


def test_sessions_remember_so_many_partitions_together_whoever_asks() -> None:
    sessions = FetchSessionCache(1000, Random(7), partitions_max=10)
    first = make(sessions, *range(6))
    assert make(sessions, *range(5)) == 0
    assert make(sessions, *range(4))
    assert sessions.partitions == 10
    assert make(sessions, *range(100), privileged=True)  # a follower's are the broker's own
    sessions.close(first)
    assert sessions.partitions == 104
    assert make(sessions, 1, now_s=1.0) == 0
    stale = EVICTION_S + 1
    assert make(sessions, *range(5), now_s=stale)
    assert (sessions.evictions, sessions.partitions) == (2, 5)  # the follower's too, which has not asked for long


def test_a_session_that_would_grow_too_large_has_to_begin_anew() -> None:
    sessions = FetchSessionCache(1000, Random(7), partitions_max=10)
    session = sessions.create(wants(*range(6)), privileged=False, uses_topic_ids=False, now_s=0)
    assert session is not None
    sessions.update(session, wants(*range(2, 9)), [SessionKey("t", 0)], now_s=0)
    assert sessions.partitions == 8
    with pytest.raises(KafkaError) as caught:
        sessions.update(session, wants(*range(20)), [], now_s=0)
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partitions) == (0, 0)
