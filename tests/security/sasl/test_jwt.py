"""Signed tokens: good ones, and every way in which one is not; and the keys of an issuer, as they come and go."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwk, jws

from ottla.base import ConfigError
from ottla.security.sasl import (
    BearerToken,
    Jwks,
    JwksError,
    JwtRules,
    JwtValidator,
    TokenRefusedError,
    UnsecuredValidator,
    unsecured_token,
)

NOW = 1_000_000
RULES = JwtRules(frozenset({"kafka"}), "https://issuer")
CLAIMS = {"sub": "ann", "iat": NOW / 1000, "exp": NOW / 1000 + 60, "iss": "https://issuer", "aud": "kafka"}
RSA = jwk.RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
OTHER = jwk.RSAKey.generate_key(2048, {"kid": "other"})
P_256 = jwk.ECKey.generate_key("P-256", {"kid": "p256", "alg": "ES256"})
P_521 = jwk.ECKey.generate_key("P-521", {"kid": "p521"})
ED = jwk.OKPKey.generate_key("Ed25519", {"kid": "ed"})
SECRET = jwk.OctKey.generate_key(256, {"kid": "secret"})
ALL = ["RS256", "RS512", "PS256", "ES256", "ES512", "EdDSA", "Ed25519", "HS256", "none"]


def published(*keys: Any) -> bytes:
    return json.dumps({"keys": [each.as_dict(private=False) for each in keys]}).encode()


def jwks(*keys: Any) -> Jwks:
    found = Jwks()
    found.fetched(published(*keys), 0)
    return found


KEYS = jwks(RSA, P_256, P_521, ED)


def signed(claims: Any = CLAIMS, key: Any = RSA, algorithm: str = "RS256", **header: Any) -> str:
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    full = {"alg": algorithm, "kid": key.kid, **header}
    return jws.serialize_compact({k: v for k, v in full.items() if v is not None}, payload, key, algorithms=ALL)


def encoded(value: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def check(token: str, rules: JwtRules = RULES, keys: Jwks = KEYS, now_ms: int = NOW) -> BearerToken:
    return JwtValidator(rules, keys, lambda: now_ms)(token)


def refused(token: str, rules: JwtRules = RULES, keys: Jwks = KEYS, now_ms: int = NOW) -> str:
    with pytest.raises(TokenRefusedError) as error:
        check(token, rules, keys, now_ms)
    assert len(token) < 20 or token not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (RSA, "RS256"),
        (ED, "Ed25519"),
        (RSA, "PS256"),
        (RSA, "RS512"),
        (P_256, "ES256"),
        (P_521, "ES512"),
        (ED, "EdDSA"),
    ],
)
def test_tokens_of_every_asymmetric_kind_are_good(key: Any, algorithm: str) -> None:
    assert check(signed(key=key, algorithm=algorithm)) == BearerToken("ann", NOW + 60_000, frozenset(), NOW)


def test_a_token_that_nobody_signed_is_refused() -> None:
    payload = signed().split(".")[1]
    for algorithm in ("none", "None", "NONE", ""):
        assert "not signed in a way" in refused(f"{encoded({'alg': algorithm, 'kid': 'rsa'})}.{payload}.")
    assert "no key" in refused(unsecured_token("ann", issued_ms=NOW))


def test_a_public_key_is_never_taken_for_a_secret() -> None:
    header, payload, _ = signed().split(".")
    assert "signature" in refused(f"{header}.{payload}.AAAA")
    for public in (RSA.as_pem(private=False), RSA.as_der(private=False)):
        start = f"{encoded({'alg': 'HS256', 'kid': 'rsa'})}.{payload}"
        signature = urlsafe_b64encode(hmac.digest(public, start.encode(), "sha256")).rstrip(b"=").decode()
        assert "not signed in a way" in refused(f"{start}.{signature}")


def test_symmetric_keys_of_a_jwks_are_passed_over() -> None:
    found = Jwks()
    found.fetched(json.dumps({"keys": [SECRET.as_dict(private=True), RSA.as_dict(private=False)]}).encode(), 0)
    assert len(found) == 1
    assert "no key" in refused(signed(key=SECRET, algorithm="HS256"), keys=found)


def test_a_token_by_another_key_is_refused_whatever_it_calls_itself() -> None:
    assert "no key" in refused(signed(key=OTHER))
    assert "signature" in refused(signed(key=OTHER, kid="rsa"))
    assert "not signed in a way" in refused(signed(key=RSA, kid="p256"))


def test_a_changed_token_is_refused() -> None:
    header, payload, signature = signed().split(".")
    claims = json.loads(urlsafe_b64decode(payload + "=="))
    claims["sub"] = "admin"
    assert "signature" in refused(f"{header}.{encoded(claims)}.{signature}")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"exp": NOW / 1000 - 31}, "expired"),
        ({"exp": NOW / 1000 - 30}, "expired"),
        ({"exp": None}, "exp is no time"),
        ({"exp": "9999999999"}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": 1e300}, "out of all bounds"),
        ({"iat": None}, "iat is no time"),
        ({"nbf": NOW / 1000 + 31}, "not valid yet"),
        ({"nbf": "x"}, "nbf is no time"),
        ({"iss": "https://other"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "other"}, "another audience"),
        ({"aud": ["other"]}, "another audience"),
        ({"aud": 7}, "neither a text nor a list"),
        ({"aud": None}, "another audience"),
        ({"sub": None}, "sub is no name"),
        ({"sub": "  "}, "sub is no name"),
        ({"sub": 7}, "sub is no name"),
        ({"sub": "a\nb"}, "sub is no name"),
        ({"sub": "a" * 1025}, "sub is no name"),
        ({"scope": [7]}, "neither a text nor a list"),
    ],
)
def test_a_signed_token_that_says_the_wrong_thing_is_refused(changes: dict[str, Any], says: str) -> None:
    claims = {k: v for k, v in {**CLAIMS, **changes}.items() if v is not None}
    assert says in refused(signed(claims))


def test_clocks_may_differ_by_the_skew() -> None:
    assert check(signed({**CLAIMS, "exp": NOW / 1000 - 29, "nbf": NOW / 1000 + 29})).user == "ann"


@pytest.mark.parametrize("scope", ["a b", ["a", "b"]])
def test_a_scope_is_a_text_or_a_list(scope: object) -> None:
    assert check(signed({**CLAIMS, "scope": scope})).scope == {"a", "b"}


def test_other_claims_may_name_the_user() -> None:
    rules = replace(RULES, user_claim="client", audience=frozenset({"a", "kafka"}))
    assert check(signed({**CLAIMS, "client": "bob", "aud": ["x", "kafka"]}), rules).user == "bob"


@pytest.mark.parametrize("header", [{"crit": ["exp"], "exp": 1}, {"b64": False, "crit": ["b64"]}, {"kid": 7}])
def test_headers_that_are_not_understood_are_refused(header: dict[str, Any]) -> None:
    start = f"{encoded({'alg': 'RS256', 'kid': 'rsa', **header})}.{signed().split('.')[1]}"
    assert RSA.private_key is not None
    signature = RSA.private_key.sign(start.encode(), PKCS1v15(), SHA256())
    says = "extensions" if "crit" in header else "no text"
    assert says in refused(f"{start}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}")


@pytest.mark.parametrize("claims", [b"[]", b"x", b"\xff", b"[" * 100_000, b'{"exp": NaN}'])
def test_what_is_signed_and_no_object_is_refused(claims: bytes) -> None:
    assert refused(signed(claims))


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(signed().split(".")) | st.text(max_size=9), max_size=5).map(".".join)
)
def test_hostile_tokens_are_refused_and_never_crash(token: str) -> None:
    if token != signed():
        refused(token)


def test_a_token_without_a_kid_needs_a_jwks_of_one_key() -> None:
    token = signed(kid=None)
    assert "no key" in refused(token)
    assert check(token, keys=jwks(RSA)).user == "ann"


def test_before_keys_have_come_every_token_is_refused() -> None:
    assert "no key" in refused(signed(), keys=Jwks())


def test_rules_without_audience_or_issuer_have_to_be_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"expected\.audience"):
        JwtRules(issuer="x")
    with pytest.raises(ConfigError, match=r"expected\.issuer"):
        JwtRules(frozenset({"x"}))
    assert check(signed({"sub": "a", "iat": 1, "exp": NOW}), JwtRules(any_audience=True, any_issuer=True)).user == "a"


def test_keys_are_fetched_at_once_then_each_hour_and_sooner_for_a_kid_that_is_new() -> None:
    keys = Jwks()
    assert keys.due_ms(5) == 5
    keys.fetched(published(RSA), 1000)
    assert keys.due_ms(2000) == 3_601_000
    assert keys.key("new", 5000) is None and keys.due_ms(5000) == 5000
    keys.fetched(published(RSA), 5000)
    assert keys.key("new", 6000) is None and keys.due_ms(6000) == 3_605_000  # asked for already
    assert keys.key("new", 70_000) is None and keys.due_ms(70_000) == 70_000
    keys.fetched(published(RSA, OTHER), 70_000)
    assert keys.key("other", 70_000) is not None


def test_names_of_keys_that_somebody_makes_up_cannot_fill_the_memory() -> None:
    keys = jwks(RSA)
    for at in range(1000):
        keys.key(f"made-up-{at}", at)
    assert keys.key("x" * 10_000, 5) is None
    assert len(keys._missing) <= 16


def test_failures_wait_longer_and_longer_and_leave_the_keys_that_there_were() -> None:
    keys = jwks(RSA)
    waits = []
    for _ in range(9):
        with pytest.raises(JwksError):
            keys.fetched(b"<html>", 0)
        waits.append(keys.due_ms(0))
    assert waits == [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
    assert check(signed(), keys=keys).user == "ann"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"keys": 7}',
        b'{"keys": [7]}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "RSA"}]}',
        b'{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}',
        b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}',
        b"[" * 100_000,
        b'{"keys": [' + b"{}," * 300 + b"{}]}",
    ],
)
def test_what_is_no_jwks_is_refused(data: bytes) -> None:
    with pytest.raises(JwksError):
        Jwks().fetched(data, 0)


def test_short_keys_and_keys_for_encryption_are_passed_over() -> None:
    weak = jwk.RSAKey.generate_key(1024, {"kid": "weak"})
    encrypting = jwk.RSAKey.generate_key(2048, {"kid": "enc", "use": "enc"})
    found = jwks(RSA, weak, encrypting)
    assert len(found) == 1 and found.key("weak", 0) is None


def test_unsecured_tokens_are_good_only_where_that_was_asked_for() -> None:
    validate = UnsecuredValidator(lambda: NOW, required_scope=frozenset({"a"}))
    token = unsecured_token("ann", issued_ms=NOW, lifetime_ms=1000, scope=["a", "b"])
    assert validate(token).user == "ann"
    with pytest.raises(TokenRefusedError) as lacking:
        validate(unsecured_token("ann", issued_ms=NOW, lifetime_ms=1000))
    assert lacking.value.status == "insufficient_scope"
    for wrong in (signed(), token + "AAAA", unsecured_token("ann", issued_ms=0, lifetime_ms=1)):
        with pytest.raises(TokenRefusedError):
            validate(wrong)
