"""Whom a request asks, and whose page sent it."""

from __future__ import annotations

import pytest

from ottla.http import host_of, is_loopback, is_of_another_page


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("127.0.0.1:9180", "127.0.0.1"),
        ("LocalHost", "localhost"),
        ("[::1]:9180", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("a.example:b:1", "a.example:b:1"),  # nobody's name
        ("127.0.0.1:80@a.example", "127.0.0.1:80@a.example"),
        ("", ""),
    ],
)
def test_the_host_is_without_port_and_brackets(host: str, name: str) -> None:
    assert host_of({"Host": host}) == name and host_of({}) == ""


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.9.9.9", True), ("::1", True), ("LOCALHOST", True), ("0.0.0.0", False), ("127.0.0.1.a.example", False)],
)
def test_loopback_addresses_are_those_that_only_this_machine_reaches(host: str, is_local: bool) -> None:
    assert is_loopback(host) is is_local


@pytest.mark.parametrize(
    ("origin", "is_another"),
    [
        (None, False),
        ("http://here:1", False),
        ("https://here:1", False),
        ("http://here:2", True),
        ("http://here", True),
        ("http://there:1", True),
        ("null", True),
        ("", True),
    ],
)
def test_a_page_of_another_address_is_told_by_its_origin(origin: str | None, is_another: bool) -> None:
    given = {} if origin is None else {"Origin": origin}
    assert is_of_another_page({"Host": "here:1", **given}) is is_another
    assert is_of_another_page(given) is (origin is not None)
