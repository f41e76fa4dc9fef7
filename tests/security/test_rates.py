"""Rates over windows and token buckets, in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security import SampledRate, TokenBucket, Windows

SECOND_MS = 1000
TEN = Windows(11, SECOND_MS)


def test_a_first_burst_is_spread_over_all_windows_but_one() -> None:
    rate = SampledRate(TEN)
    rate.record(500, 0)
    assert rate.span_ms(0) == 10_000
    assert rate.per_second(0) == 50


def test_windows_that_are_too_old_no_longer_count() -> None:
    rate = SampledRate(TEN)
    rate.record(500, 0)
    assert rate.per_second(10_999) > 0
    assert rate.per_second(11_000) == 0
    assert rate.is_idle(11_000)


def test_a_rate_below_its_bound_waits_for_nothing_and_one_above_until_it_is_within() -> None:
    rate = SampledRate(TEN)
    rate.record(1000, 0)
    assert rate.throttle_ms(100, 0) == 0
    rate.record(1, 0)
    wait_ms = rate.throttle_ms(100, 0)
    assert wait_ms == 10
    rate.record(500, 0)
    assert rate.throttle_ms(100, 0) == 5010


def test_what_is_taken_back_does_not_count() -> None:
    rate = SampledRate(TEN)
    rate.record(700, 0)
    rate.record(-700, 5)
    assert rate.per_second(5) == 0


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 10_000)), min_size=1, max_size=80))
def test_a_rate_is_what_came_in_the_windows_kept_divided_by_their_time(steps: list[tuple[int, int]]) -> None:
    rate = SampledRate(TEN)
    now_ms = 0
    total = 0
    for pause_ms, amount in steps:
        now_ms += pause_ms
        rate.record(amount, now_ms)
        total += amount
    assert 0 <= rate.per_second(now_ms) * 10 <= total + 1e-6
    assert 10 * SECOND_MS <= rate.span_ms(now_ms) <= 15 * SECOND_MS


@pytest.mark.parametrize(("bound", "request_size"), [(1e3, 100), (5e4, 2000), (1e6, 7000), (1e6, 60_000)])
@pytest.mark.parametrize("speed", [2, 5, 100])
def test_a_client_that_waits_as_told_stays_within_a_fifth_of_its_quota(
    bound: float, request_size: int, speed: int
) -> None:
    """Over any eleven windows from one burst to the next, however much faster than its quota the client is."""
    rate = SampledRate(TEN)
    now_ms = 0.0
    sent: list[tuple[float, int]] = []
    while now_ms < 55 * SECOND_MS:
        now_ms += request_size / (bound * speed) * SECOND_MS
        rate.record(request_size, int(now_ms))
        sent.append((now_ms, request_size))
        now_ms += rate.throttle_ms(bound, int(now_ms))
    for from_ms in range(0, 55 * SECOND_MS, 11 * SECOND_MS):
        in_ten = sum(size for at, size in sent if from_ms <= at < from_ms + 10 * SECOND_MS)
        assert in_ten / 10 == pytest.approx(bound, rel=0.2)


def test_a_bucket_lets_one_burst_through_and_then_waits_until_the_debt_is_paid() -> None:
    bucket = TokenBucket(TEN)
    assert bucket.tokens(2.0, 0) == 22
    bucket.take(30, 2.0, 0)
    assert bucket.throttle_ms(2.0, 0) == 4000
    assert bucket.throttle_ms(2.0, 3999) > 0
    assert bucket.throttle_ms(2.0, 4000) == 0


def test_a_bucket_never_holds_more_than_comes_in_all_windows() -> None:
    bucket = TokenBucket(TEN)
    bucket.take(5, 2.0, 0)
    assert bucket.tokens(2.0, 10_000_000) == 22
