"""SCRAM's keys: the examples of the RFCs, Kafka's bounds, and what stands in for users that there are not."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.security.scram_credentials import (
    ScramMechanism,
    check_new_credential,
    credential_of,
    credential_of_salted,
    decoy,
    is_proved,
    proof_of,
    salted_password,
    server_signature,
)

SHA_256 = ScramMechanism.SHA_256
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
AUTH_MESSAGE = (
    b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
)
PROOF = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")


def test_the_example_of_rfc_7677_comes_out() -> None:
    salted = salted_password(SHA_256, "pencil", salt=SALT, iterations=4096)
    credential = credential_of(SHA_256, "pencil", salt=SALT, iterations=4096)
    assert credential == credential_of_salted(SHA_256, salted=salted, salt=SALT, iterations=4096)
    assert proof_of(SHA_256, salted, AUTH_MESSAGE) == PROOF
    assert is_proved(SHA_256, credential, proof=PROOF, auth_message=AUTH_MESSAGE)
    signature = server_signature(SHA_256, credential.server_key, AUTH_MESSAGE)
    assert b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("proof", [b"", b"\0" * 32, PROOF[:-1], PROOF + b"\0", PROOF[::-1]])
def test_any_other_proof_shows_nothing(proof: bytes) -> None:
    credential = credential_of(SHA_256, "pencil", salt=SALT, iterations=4096)
    assert not is_proved(SHA_256, credential, proof=proof, auth_message=AUTH_MESSAGE)


@pytest.mark.parametrize(
    ("name", "mechanism", "iterations", "code", "says"),
    [
        ("", 1, 4096, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ("a", 3, 4096, ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ("a", 1, 4095, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ("a", 2, 16385, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
    ],
)
def test_a_credential_outside_of_kafkas_bounds_is_not_set(
    name: str, mechanism: int, iterations: int, code: ErrorCode, says: str
) -> None:
    assert check_new_credential("a", 2, 16384) is ScramMechanism.SHA_512
    with pytest.raises(KafkaError, match=says) as refused:
        check_new_credential(name, mechanism, iterations)
    assert refused.value.code is code


def test_a_user_who_is_not_there_always_has_the_same_salt_and_another_than_others() -> None:
    made = [decoy(SHA_256, user, key) for user in ("ann", "bob") for key in (b"1", b"2")]
    assert len({each.salt for each in made}) == 4 and made[0] == decoy(SHA_256, "ann", b"1")
    assert decoy(SHA_256, "ann", b"1").salt != decoy(ScramMechanism.SHA_512, "ann", b"1").salt
    assert len(decoy(ScramMechanism.SHA_512, "ann", b"1").stored_key) == 64


def test_a_credential_shows_no_secret_where_it_is_printed() -> None:
    assert repr(credential_of(SHA_256, "pencil", salt=SALT, iterations=4096)) == "ScramCredential(iterations=4096)"
