"""A follower's half of a fetch session: what it asks for is what the leader's half comes to remember."""

from __future__ import annotations

import random

from ottla.base import KafkaError
from ottla.replica import FetchedPartition, FetchSessionCache, FollowedKey, FollowerSession, SessionKey


def test_a_request_names_only_what_is_new_or_gone() -> None:
    session = FollowerSession()
    session.want((b"t", 0))
    session.want((b"t", 1))
    assert session.next_request() == (0, 0, [(b"t", 0), (b"t", 1)], [])
    session.answered(7)
    assert session.next_request() == (7, 1, [], [])
    session.answered(7)
    session.want((b"t", 1))
    session.drop((b"t", 0))
    session.want((b"u", 0))
    assert session.next_request() == (7, 2, [(b"t", 1), (b"u", 0)], [(b"t", 0)])
    session.reset()
    assert session.next_request() == (7, 0, [(b"t", 1), (b"u", 0)], [])


def test_without_a_session_everything_is_named_each_time() -> None:
    session = FollowerSession()
    session.want((b"t", 0))
    for _ in range(3):
        assert session.next_request() == (0, 0, [(b"t", 0)], [])
        session.answered(0)


def test_what_was_dropped_and_is_wanted_again_is_not_forgotten() -> None:
    session = FollowerSession()
    session.want((b"t", 0))
    session.next_request()
    session.answered(3)
    session.drop((b"t", 0))
    session.want((b"t", 0))
    assert session.next_request() == (3, 1, [(b"t", 0)], [])


def test_the_leader_remembers_what_the_follower_wants_whatever_happens() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        session, cache = FollowerSession(), FetchSessionCache(1, rng)
        wanted: set[FollowedKey] = set()
        for step in range(60):
            for _ in range(rng.randrange(4)):
                key = (b"t", rng.randrange(8))
                if rng.random() < 0.6:
                    session.want(key)
                    wanted.add(key)
                else:
                    session.drop(key)
                    wanted.discard(key)
            if not wanted:
                continue
            if rng.random() < 0.1:
                session.reset()
            if rng.random() < 0.05:
                cache.close(next(iter(cache._sessions), 0))
            request = session.next_request()
            asked = [(SessionKey(*key), FetchedPartition(fetch_offset=step, max_bytes=1)) for key in request.asked]
            try:
                if request.epoch == 0:
                    cache.close(request.id)
                    found = cache.create(asked, privileged=True, uses_topic_ids=True, now_s=float(step))
                    assert found is not None
                else:
                    found = cache.resume(request.id, request.epoch, uses_topic_ids=True, now_s=float(step))
                    found.update(asked, [SessionKey(*key) for key in request.forgotten])
            except KafkaError:
                session.reset()
                continue
            assert set(found.partitions) == wanted, f"seed {seed}"
            session.answered(found.id)
