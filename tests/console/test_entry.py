"""Who comes in: the key, sessions, and what a request has to show."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError
from ottla.console import ClusterSettings, console_settings
from ottla.console.entry import Entry, is_same
from ottla.http import HttpError

CLUSTERS = (ClusterSettings("c", "127.0.0.1:9092", {}),)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def entry() -> tuple[Entry, Clock]:
    clock = Clock()
    return Entry(clock), clock


def status(call: object) -> int:
    with pytest.raises(HttpError) as refused:
        call()  # type: ignore[operator]
    return refused.value.status


@pytest.mark.parametrize("text", ["\ud800", "\udcff\udcfe", "ä", ""])
def test_half_a_character_is_a_wrong_key_and_a_wrong_token_as_any_other(text: str) -> None:
    door, _ = entry()
    assert status(lambda: door.open(text, "127.0.0.1")) == 401
    _, session = door.begin()
    headers = {"Content-Type": "application/json", "X-Ottla-Token": text}
    assert status(lambda: door.check_change(session, headers)) == 403
    assert not is_same(text, "key") and is_same("key", "key")


def test_a_key_opens_one_session() -> None:
    door, _ = entry()
    key = door.key
    cookie, session = door.open(key, "127.0.0.1")
    assert door.session(cookie) is session and door.key != key
    assert status(lambda: door.open(key, "127.0.0.1")) == 401


def test_who_guesses_waits_longer_each_time() -> None:
    door, clock = entry()
    for _ in range(5):
        assert status(lambda: door.open("wrong", "10.0.0.1")) == 401
    assert status(lambda: door.open(door.key, "10.0.0.1")) == 429
    assert door.open(door.key, "10.0.0.2")
    clock.now += 2
    assert status(lambda: door.open("wrong", "10.0.0.1")) == 401
    clock.now += 1.5
    assert status(lambda: door.open("wrong", "10.0.0.1")) == 429


def test_a_try_that_says_nothing_of_the_password_does_not_make_earlier_guesses_forgotten() -> None:
    door, clock = entry()
    for _ in range(3):
        door.attempt("user ann")
        door.attempt("user ann")
        door.taken_back("user ann")
    door.attempt("user ann")
    door.attempt("user ann")
    assert status(lambda: door.attempt("user ann")) == 429
    clock.now += 1.1
    door.attempt("user ann")
    door.taken_back("user ann")
    door.attempt("user ann")
    clock.now += 1.1
    assert status(lambda: door.attempt("user ann")) == 429
    door.attempt("user bob")
    door.taken_back("user bob")
    door.taken_back("user bob", "user eve")
    for _ in range(5):
        door.attempt("user bob")
    assert status(lambda: door.attempt("user bob")) == 429


def test_a_session_ends_when_idle_and_after_twelve_hours() -> None:
    door, clock = entry()
    cookie, _ = door.open(door.key, "a")
    clock.now += 3599
    door.session(cookie)
    clock.now += 3601
    assert status(lambda: door.session(cookie)) == 401
    cookie, _ = door.open(door.key, "a")
    for _ in range(13):
        clock.now += 3500
        try:
            door.session(cookie)
        except HttpError:
            break
    assert clock.now > 1000 + 12 * 3600
    assert status(lambda: door.session(cookie)) == 401


def test_calls_of_a_session_are_bounded() -> None:
    door, clock = entry()
    cookie, _ = door.open(door.key, "a")
    assert status(lambda: [door.session(cookie) for _ in range(100)]) == 429
    clock.now += 1
    door.session(cookie)


def test_a_change_needs_json_the_token_and_no_foreign_origin() -> None:
    door, _ = entry()
    _, session = door.open(door.key, "a")
    good = {
        "Host": "127.0.0.1:9180",
        "Origin": "http://127.0.0.1:9180",
        "Content-Type": "application/json; charset=utf-8",
        "X-Ottla-Token": session.token,
    }
    door.check_change(session, good)
    assert status(lambda: door.check_change(session, {**good, "Origin": "http://evil.example"})) == 403
    assert status(lambda: door.check_change(session, {**good, "Origin": "null"})) == 403
    assert status(lambda: door.check_change(session, {**good, "X-Ottla-Token": "x"})) == 403
    assert status(lambda: door.check_change(session, {**good, "Content-Type": "text/plain"})) == 415


def test_an_address_that_others_reach_is_refused_unless_it_is_allowed() -> None:
    with pytest.raises(ConfigError, match=r"ottla\.console\.allow\.anonymous=true"):
        console_settings({"ottla.console.listeners": "0.0.0.0:9180"}, CLUSTERS)
    found = console_settings(
        {"ottla.console.listeners": "0.0.0.0:9180", "ottla.console.allow.anonymous": "true"}, CLUSTERS
    )
    assert found.listeners == (("0.0.0.0", 9180),)


def test_a_setting_that_there_is_not_is_named() -> None:
    with pytest.raises(ConfigError, match="there is no such setting"):
        console_settings({"ottla.console.readonly": "true"}, CLUSTERS)
    with pytest.raises(ConfigError, match="HOST:PORT, or https"):
        console_settings({"ottla.console.listeners": "9180"}, CLUSTERS)
