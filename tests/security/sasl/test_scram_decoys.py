"""Nobody learns by SCRAM's first answer who has a credential: what is made up is of the kinds that there are."""

from __future__ import annotations

from base64 import b64decode

import pytest

from ottla.security.sasl import AuthenticationError, ScramClient, ScramLogin, ScramServer
from ottla.security.scram_credentials import ScramKind, ScramMechanism, credential_of, decoy

SHA_256 = ScramMechanism.SHA_256
KNOWN = {
    f"user-{number}": ScramLogin(
        credential_of(
            SHA_256, "x", salt=bytes([number]) * (16 + 16 * (number % 2)), iterations=4096 * (1 + number % 3)
        ),
        f"user-{number}",
    )
    for number in range(12)
}
KINDS = {ScramKind.of(each.credential) for each in KNOWN.values()}
STRANGERS = [f"nobody-{number}" for number in range(200)]


def server(*, key: bytes = b"k") -> ScramServer:
    return ScramServer(
        SHA_256,
        lambda user, by_token: None if by_token else KNOWN.get(user),
        nonce="n" * 12,
        decoy_key=key,
        kinds=lambda: KINDS,
    )


def shown(user: str, **options: bytes) -> tuple[int, bytes]:
    """Return the iterations and the salt that a user is told before anything is proved."""
    answer = server(**options).respond(f"n,,n={user},r=client".encode()).decode()
    fields = dict(part.split("=", 1) for part in answer.split(","))
    return int(fields["i"]), b64decode(fields["s"])


def test_who_is_not_there_looks_like_somebody_who_is() -> None:
    kinds = {ScramKind(iterations, len(salt)) for iterations, salt in map(shown, STRANGERS)}
    assert kinds == KINDS


def test_what_is_made_up_is_the_same_each_time_and_another_servers_is_not() -> None:
    for user in STRANGERS[:20]:
        assert shown(user) == shown(user)
        assert shown(user)[1] != shown(user, key=b"other")[1]
    assert len({shown(user)[1] for user in STRANGERS}) == len(STRANGERS)


def test_a_user_who_comes_or_goes_changes_nothing_of_the_others() -> None:
    before = {user: decoy(SHA_256, user, b"k", kinds=KINDS) for user in STRANGERS}
    new = ScramKind(16_384, 24)
    after = {user: decoy(SHA_256, user, b"k", kinds={*KINDS, new}) for user in STRANGERS}
    moved = {ScramKind.of(after[user]) for user in STRANGERS if after[user] != before[user]}
    assert moved == {new}


def test_where_nobody_has_a_credential_it_is_that_of_the_tools() -> None:
    assert ScramKind.of(decoy(SHA_256, "x", b"k", kinds=())) == ScramKind(4096, 32)


@pytest.mark.parametrize("user", ["user-2", "nobody-1"])
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(user: str) -> None:
    exchange, client = server(), ScramClient(SHA_256, user=user, password="wrong", nonce="client")
    final = client.respond(exchange.respond(client.start()))
    assert final is not None
    with pytest.raises(AuthenticationError) as refused:
        exchange.respond(final)
    expected = (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )
    assert str(refused.value) == expected
