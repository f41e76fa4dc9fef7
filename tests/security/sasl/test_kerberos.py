"""The negotiation on top of a Kerberos context, plain calls over one that signs nothing; tests/compat has a real KDC."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import ErrorCode
from ottla.security.sasl import AuthenticationError, GssapiClient, GssapiServer, GssError
from ottla.security.sasl.kerberos import ROUNDS_MAX, TOKEN_BYTES_MAX

SIGNED = b"signed:"
NOW_MS = 1_000_000


class Context:
    """In the place of the library's: takes the tokens that it is made with, in order, and answers each."""

    peer = "ann@REALM"
    lifetime_ms: int | None = 5000

    def __init__(self, *steps: tuple[bytes | None, bytes]) -> None:
        self._steps = list(steps)

    @property
    def complete(self) -> bool:
        return not self._steps

    def step(self, token: bytes | None) -> bytes:
        if not self._steps or self._steps[0][0] != token:
            raise GssError("Invalid token was supplied")
        return self._steps.pop(0)[1]

    def wrap(self, text: bytes) -> bytes:
        return SIGNED + text

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(SIGNED):
            raise GssError("A token had an invalid signature")
        return token.removeprefix(SIGNED)


def short(principal: str) -> str:
    return principal.partition("@")[0]


def server(*steps: tuple[bytes | None, bytes]) -> GssapiServer:
    found = Context(*(steps or ((b"ticket", b"proof"),)))
    return GssapiServer(lambda: found, user=short, service="kafka", now_ms=lambda: NOW_MS)


def client() -> GssapiClient:
    return GssapiClient(Context((b"proof", b"")), b"ticket")


def test_both_sides_agree_on_no_layer_and_the_login_ends_with_the_ticket() -> None:
    ours, theirs = client(), server()
    token: bytes | None = ours.start()
    answers = []
    while token is not None:
        answers.append(theirs.respond(token))
        token = ours.respond(answers[-1])
    assert answers == [b"proof", SIGNED + b"\1\0\0\0", b""]
    assert ours.complete and theirs.logged_in is not None
    assert (theirs.logged_in.user, theirs.logged_in.expires_ms) == ("ann", NOW_MS + 5000)


def test_a_context_without_a_proof_is_answered_with_the_offer() -> None:
    found = server((b"ticket", b""))
    assert found.respond(b"ticket") == SIGNED + b"\1\0\0\0"
    assert found.respond(SIGNED + b"\1\0\0\0") == b"" and found.logged_in is not None


@pytest.mark.parametrize(
    "tokens",
    [
        [b""],
        [b"another"],
        [b"ticket", b"more"],
        [b"ticket", b"", b"\1\0\0\0"],
        [b"ticket", b"", SIGNED],
        [b"ticket", b"", SIGNED + b"\1\0\0"],
        [b"ticket", b"", SIGNED + b"\2\0\0\0"],
        [b"ticket", b"", SIGNED + b"\3\0\0\0"],
        [b"ticket", b"", SIGNED + b"\0\0\0\0"],
        [b"ticket", b"", SIGNED + b"\1\0\0\0\xff"],
        [b"ticket", b"", SIGNED + b"\1\0\0\0bob"],
        [b"ticket", b"", SIGNED + b"\1\0\0\0kafka"],
        [b"ticket", b"", SIGNED + b"\1\0\0\0ann@ELSEWHERE"],
        [b"ticket", b"", SIGNED + b"\1\0\0\0" + b"a" * 2000],
        [bytes(TOKEN_BYTES_MAX + 1)],
    ],
)
def test_what_is_no_part_of_it_is_refused_and_nothing_is_taken_after_it(tokens: list[bytes]) -> None:
    found = server()
    *before, last = tokens
    for token in before:
        found.respond(token)
    for token in (last, b"ticket", b"", SIGNED + b"\1\0\0\0"):
        with pytest.raises(AuthenticationError) as raised:
            found.respond(token)
        assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "ELSEWHERE" not in raised.value.message and "bob" not in raised.value.message
    assert found.logged_in is None


def test_a_context_that_never_stands_ends_after_some_tokens() -> None:
    found = server(*[(b"again", b"again")] * (2 * ROUNDS_MAX))
    for _ in range(ROUNDS_MAX):
        assert found.respond(b"again") == b"again"
    with pytest.raises(AuthenticationError):
        found.respond(b"again")
    stuck = server((b"again", b""), (b"again", b""))
    with pytest.raises(AuthenticationError):
        stuck.respond(b"again")


@pytest.mark.parametrize(
    "challenges",
    [
        [b"another"],
        [b"proof", b"\1\0\0\0"],
        [b"proof", SIGNED + b"\2\0\0\0"],
        [b"proof", SIGNED + b"\1\0\0"],
        [b"proof", SIGNED + b"\1\0\0\0", b"more"],
        [bytes(TOKEN_BYTES_MAX + 1)],
    ],
)
def test_a_client_leaves_a_server_that_shows_no_proof_or_wants_a_layer(challenges: list[bytes]) -> None:
    found = client()
    *before, last = challenges
    for each in before:
        found.respond(each)
    for each in (last, b""):
        with pytest.raises(AuthenticationError):
            found.respond(each)
    assert not found.complete


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"ticket", b"proof", b"", SIGNED]), max_size=10))
def test_hostile_tokens_fail_and_never_crash(tokens: list[bytes]) -> None:
    for made in (server, client):
        _feed(made().respond, tokens)


def _feed(respond: Callable[[bytes], bytes | None], tokens: list[bytes]) -> None:
    for token in tokens:
        try:
            respond(token)
        except AuthenticationError:
            continue
