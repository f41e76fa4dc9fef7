"""The exchanges between our own two sides: what comes out, what is refused, and what a refusal tells."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.security.sasl import (
    AuthenticationError,
    BearerToken,
    ClientExchange,
    LoggedIn,
    OAuthBearerClient,
    OAuthBearerServer,
    PlainClient,
    PlainServer,
    PlainUsers,
    ScramClient,
    ScramLogin,
    ScramServer,
    ServerExchange,
    TokenRefusedError,
    check_mechanisms,
    unsupported_mechanism,
)
from ottla.security.scram_credentials import ScramMechanism, credential_of, proof_of, salted_password

SHA_256 = ScramMechanism.SHA_256
ANN = ScramLogin(credential_of(SHA_256, "secret-of-ann", salt=b"s" * 32, iterations=4096), "ann")
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"


def scram_server(login: ScramLogin | None = ANN, *, nonce: str = "server") -> ScramServer:
    return ScramServer(
        SHA_256, lambda user, by_token: login if user == "ann" and not by_token else None, nonce=nonce, decoy_key=b"k"
    )


def scram_client(user: str = "ann", password: str = "secret-of-ann", nonce: str = "client") -> ScramClient:
    return ScramClient(SHA_256, user=user, password=password, nonce=nonce)


def validated(token: str) -> BearerToken:
    if token != "good":
        raise TokenRefusedError("it is not good")
    return BearerToken("ann", 1000)


def run(client: ClientExchange, server: ServerExchange) -> LoggedIn | None:
    token: bytes | None = client.start()
    while token is not None:
        token = client.respond(server.respond(token))
    return server.logged_in


def test_each_mechanism_logs_in() -> None:
    assert run(PlainClient("ann", "x"), PlainServer(PlainUsers({"ann": "x"}).accepts)) == LoggedIn("ann")
    assert run(scram_client(), scram_server()) == LoggedIn("ann")
    found = run(OAuthBearerClient("good", {"a": "b"}), OAuthBearerServer(validated))
    assert found == LoggedIn("ann", 1000, extensions=(("a", "b"),))


@pytest.mark.parametrize(("user", "password"), [("ann", "y"), ("bob", "x"), ("bob", "nobody has this"), ("ann", "xx")])
def test_plain_tells_nothing_of_what_was_wrong(user: str, password: str) -> None:
    server = PlainServer(PlainUsers({"ann": "x"}).accepts)
    with pytest.raises(AuthenticationError, match=r"^Authentication failed: Invalid username or password$"):
        run(PlainClient(user, password), server)
    assert server.logged_in is None


@pytest.mark.parametrize(
    ("server", "token"),
    [
        (PlainServer(PlainUsers({"ann": "x"}).accepts), b"bob\0ann\0x"),
        (scram_server(), b"n,a=bob,n=ann,r=x"),
        (OAuthBearerServer(validated), b"n,a=bob,\x01auth=Bearer good\x01\x01"),
    ],
)
def test_nobody_gets_rights_that_he_asks_for_as_another(server: ServerExchange, token: bytes) -> None:
    with pytest.raises(AuthenticationError, match="requested an authorization id"):
        server.respond(token)
    assert server.logged_in is None


def test_a_wrong_password_and_a_user_who_is_not_there_look_alike_until_the_end() -> None:
    said = []
    for user, password in (("ann", "wrong"), ("bob", "wrong")):
        server = scram_server()
        client = scram_client(user, password)
        first = server.respond(client.start())
        final = client.respond(first)
        assert final is not None
        with pytest.raises(AuthenticationError) as refused:
            server.respond(final)
        said.append((len(first), first.rpartition(b",")[2], refused.value.message, refused.value.reason))
    assert said[0] == said[1] and said[0][2] == INVALID


def test_a_user_who_is_not_there_costs_the_same_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for user in ("ann", "bob"):
        hashed: list[bytes] = []
        real = ScramMechanism.keyed

        def counted(
            self: ScramMechanism,
            key: bytes,
            data: bytes,
            hashed: list[bytes] = hashed,
            real: Callable[..., bytes] = real,
        ) -> bytes:
            hashed.append(data)
            return real(self, key, data)

        server, client = scram_server(), scram_client(user, "wrong")
        final = client.respond(server.respond(client.start()))
        assert final is not None
        with monkeypatch.context() as patched:
            patched.setattr(ScramMechanism, "keyed", counted)
            with pytest.raises(AuthenticationError):
                server.respond(final)
        counts.append(len(hashed))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "altered",
    [
        lambda final: final.replace(b"r=clientserver", b"r=clientother"),
        lambda final: final.replace(b"r=clientserver", b"r=client"),
        lambda final: final.replace(b"c=biws", b"c=eSws"),
        lambda final: final.replace(b"c=biws", b"c=" + b64encode(b"n,a=ann,")),
        lambda final: final[:-5] + b"AAAA=",
        lambda final: final[:-2] + bytes([final[-2] + 1]) + final[-1:],
        lambda final: final.partition(b",p=")[0],
        lambda final: final.replace(b",p=", b",x=y,p="),
        lambda final: final + b",x=y",
    ],
)
def test_an_altered_final_message_fails(altered: Callable[[bytes], bytes]) -> None:
    server, client = scram_server(), scram_client()
    final = client.respond(server.respond(client.start()))
    assert final is not None
    with pytest.raises(AuthenticationError) as refused:
        server.respond(altered(final))
    assert refused.value.message == INVALID and server.logged_in is None


def test_a_final_message_that_was_overheard_is_worth_nothing_in_another_exchange() -> None:
    server, client = scram_server(), scram_client()
    final = client.respond(server.respond(client.start()))
    assert final is not None
    other = scram_server(nonce="another")
    other.respond(scram_client().start())
    with pytest.raises(AuthenticationError):
        other.respond(final)


def answered(first: bytes, *, binding: bytes, nonce: str = "clientserver") -> LoggedIn | None:
    """Log in with a right proof over whatever the final message says, as only one who knows the password can."""
    server = scram_server()
    said = server.respond(first)
    bare = first.split(b",", 2)[2]
    without_proof = b"c=%b,r=%b" % (b64encode(binding), nonce.encode())
    salted = salted_password(SHA_256, "secret-of-ann", salt=ANN.credential.salt, iterations=4096)
    proof = proof_of(SHA_256, salted, b",".join((bare, said, without_proof)))
    server.respond(without_proof + b",p=" + b64encode(proof))
    return server.logged_in


def test_the_final_message_must_have_the_servers_nonce_and_the_first_ones_header_even_where_the_proof_is_right() -> (
    None
):
    assert answered(b"n,,n=ann,r=client", binding=b"n,,") == LoggedIn("ann")
    assert answered(b"n,a=ann,n=ann,r=client", binding=b"n,a=ann,") == LoggedIn("ann")
    for nonce in ("client", "clientserve", "clientserverx", "server"):
        with pytest.raises(AuthenticationError) as refused:
            answered(b"n,,n=ann,r=client", binding=b"n,,", nonce=nonce)
        assert refused.value.reason == "Invalid client nonce in the final client message."
    for first, binding in ((b"n,a=ann,n=ann,r=client", b"n,,"), (b"n,,n=ann,r=client", b"y,,")):
        with pytest.raises(AuthenticationError, match="invalid credentials"):
            answered(first, binding=binding)


def test_the_servers_signature_must_be_called_so() -> None:
    server, client = scram_server(), scram_client()
    final = client.respond(server.respond(client.start()))
    assert final is not None
    with pytest.raises(AuthenticationError):
        client.respond(b"x" + server.respond(final)[1:])


def test_a_bearer_token_stands_in_its_message_once() -> None:
    server = OAuthBearerServer(validated)
    with pytest.raises(AuthenticationError):
        server.respond(b"n,,\x01auth=Bearer bad\x01auth=Bearer good\x01\x01")


def test_an_exchange_that_failed_or_ended_takes_no_further_token() -> None:
    for server, first in (
        (PlainServer(PlainUsers({"ann": "x"}).accepts), b"\0ann\0wrong"),
        (scram_server(), b"n,,n=,r="),
        (OAuthBearerServer(validated), b"n,,\x01auth=Basic x\x01\x01"),
    ):
        with pytest.raises(AuthenticationError):
            server.respond(first)
        for token in (b"\0ann\0x", scram_client().start(), OAuthBearerClient("good").start()):
            with pytest.raises(AuthenticationError):
                server.respond(token)
        assert server.logged_in is None
    server = PlainServer(PlainUsers({"ann": "x"}).accepts)
    server.respond(b"\0ann\0x")
    with pytest.raises(AuthenticationError):
        server.respond(b"\0ann\0x")


def test_a_stored_credential_with_too_few_iterations_is_not_used() -> None:
    weak = ScramLogin(credential_of(SHA_256, "x", salt=b"s", iterations=100), "ann")
    with pytest.raises(AuthenticationError) as refused:
        scram_server(weak).respond(scram_client().start())
    assert "Iterations 100 is less than the minimum 4096" in refused.value.reason


@pytest.mark.parametrize(
    ("challenge", "says"),
    [
        (b"r=other,s=QUJD,i=4096", "does not start with client nonce"),
        (b"r=client,s=QUJD,i=4096", "does not start with client nonce"),
        (b"r=clientx,s=QUJD,i=1", "Requested iterations 1 is less than the minimum 4096"),
        (b"r=clientx,s=QUJD,i=2000000000", "more than the maximum"),
        (b"r=clientx,s=QUJD,i=99999999999999999999", "Invalid SCRAM server first message"),
        (b"r=clientx,s=QUJD", "Invalid SCRAM server first message"),
        (b"\xff", "invalid credentials"),
    ],
)
def test_a_client_believes_no_server_that_makes_it_easy_or_keeps_it_busy(challenge: bytes, says: str) -> None:
    client = scram_client()
    client.start()
    with pytest.raises(AuthenticationError, match=says):
        client.respond(challenge)
    assert not client.complete


@pytest.mark.parametrize("final", [b"v=QUJD", b"v=", b"", b"e=other-error", b"x=y"])
def test_a_server_that_does_not_know_the_password_either_is_not_believed(final: bytes) -> None:
    server, client = scram_server(), scram_client()
    client.respond(server.respond(client.start()))
    with pytest.raises(AuthenticationError):
        client.respond(final)
    assert not client.complete


def test_a_refused_bearer_token_is_answered_with_a_challenge_and_then_fails() -> None:
    server, client = OAuthBearerServer(validated), OAuthBearerClient("bad")
    challenge = server.respond(client.start())
    assert challenge == b'{"status":"invalid_token"}'
    acknowledged = client.respond(challenge)
    assert acknowledged == b"\x01"
    with pytest.raises(AuthenticationError, match="invalid_token") as refused:
        server.respond(acknowledged)
    assert refused.value.reason == "it is not good" and server.logged_in is None and not client.complete


@given(st.lists(st.binary(max_size=200) | st.text(max_size=50).map(str.encode), min_size=1, max_size=4))
def test_hostile_bytes_fail_and_never_crash(tokens: list[bytes]) -> None:
    for server in (PlainServer(PlainUsers({"ann": "x"}).accepts), scram_server(), OAuthBearerServer(validated)):
        for token in tokens:
            try:
                server.respond(token)
            except AuthenticationError as error:
                assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert server.logged_in is None
    for client in (PlainClient("ann", "x"), scram_client(), OAuthBearerClient("good")):
        client.start()
        for token in tokens:
            try:
                client.respond(token or b"?")
            except AuthenticationError:
                assert not client.complete


@given(st.data())
def test_a_message_with_one_byte_changed_fails_and_never_crashes(data: st.DataObject) -> None:
    client = scram_client()
    server = scram_server()
    first = client.start()
    final = client.respond(server.respond(first))
    assert final is not None
    at = data.draw(st.integers(0, len(final) - 1))
    changed = final[:at] + bytes([final[at] ^ data.draw(st.integers(1, 255))]) + final[at + 1 :]
    with pytest.raises(AuthenticationError):
        server.respond(changed)
    assert server.logged_in is None


def test_large_tokens_take_time_in_proportion_only() -> None:
    for token in (b"n,,n=a,r=x" + b",a=b" * 120_000, b"n,,\x01" + b"a=b\x01" * 120_000 + b"\x01", b"\0" * 500_000):
        for server in (PlainServer(PlainUsers({}).accepts), scram_server(), OAuthBearerServer(validated)):
            try:
                server.respond(token)
            except AuthenticationError:
                assert server.logged_in is None


@pytest.mark.parametrize("wrong", ["", "a\0b"])
def test_a_client_without_name_or_password_says_so_before_it_sends_anything(wrong: str) -> None:
    with pytest.raises(AuthenticationError, match="username"):
        PlainClient(wrong, "x")
    with pytest.raises(AuthenticationError, match="username"):
        scram_client(wrong)


@pytest.mark.parametrize("extension", [("auth", "x"), ("a1", "x"), ("a", "\x01"), ("a", "")])
def test_a_client_sends_no_extension_that_could_be_taken_for_more(extension: tuple[str, str]) -> None:
    with pytest.raises(AuthenticationError, match="xtension"):
        OAuthBearerClient("good", dict([extension]))


def test_mechanisms_that_are_not_built_stop_the_start_with_the_sentence_that_helps() -> None:
    check_mechanisms("sasl.enabled.mechanisms", ["PLAIN", "SCRAM-SHA-512", "GSSAPI"])
    for names in (["LDAP"], []):
        with pytest.raises(ConfigError, match="PLAIN, SCRAM-SHA-256"):
            check_mechanisms("sasl.enabled.mechanisms", names)
    refused = unsupported_mechanism("X")
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_no_secret_stands_in_errors_or_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "s3cr3t-m4rk"
    texts = [repr(PlainUsers({"ann": secret})), repr(LoggedIn("ann", extensions=(("k", secret),)))]
    for server, token in (
        (PlainServer(PlainUsers({}).accepts), b"\0ann\0" + secret.encode()),
        (OAuthBearerServer(validated), f"n,,\x01auth=Basic {secret}\x01\x01".encode()),
        (OAuthBearerServer(validated), f"n,,\x01auth=Bearer {secret}\x01k={secret}\x01\x01".encode()),
    ):
        for each in (token, b"\x01"):
            try:
                texts.append(server.respond(each).decode())
            except AuthenticationError as error:
                texts += [error.message, error.reason, str(error)]
    assert secret not in " ".join(texts) + caplog.text
