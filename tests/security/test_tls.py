"""Contexts made of Kafka's `ssl.*`, shown by handshakes: who gets through, who does not, and what a reload changes."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
from pathlib import Path

import pytest

from ottla.base import ConfigError, ErrorCode, KafkaError
from ottla.security.tls import Tls, certificate_name, handshake
from ottla.security.tls_settings import TlsSettings, openssl_cipher
from tests.security.authority import PASSWORD, Identity, authority, keytool, signed

CA = authority()
OTHER_CA = authority("Other Authority")
BROKER = signed(CA, "broker")
CLIENT = signed(CA, "client", hosts=())
STRANGER = signed(OTHER_CA, "stranger")
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": CA.chain_pem()}
Properties = dict[str, str | None]


def keys(identity: Identity) -> Properties:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem(),
    }


def server(identity: Identity = BROKER, **more: str) -> Tls:
    return Tls(TlsSettings.of({**keys(identity), **TRUST, **dotted(more)}), server=True)


def client(identity: Identity | None = None, **more: str) -> Tls:
    own = {} if identity is None else keys(identity)
    return Tls(TlsSettings.of({**own, **TRUST, **dotted(more)}), server=False)


def dotted(more: dict[str, str]) -> Properties:
    return {f"ssl.{key.replace('_', '.')}": value for key, value in more.items()}


def exchanged(asking: Tls, serving: Tls, host: str = "localhost") -> tuple[str | None, bytes | None]:
    """Shake hands over a pair of sockets and send a word; returns the version and the client's certificate."""
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    theirs.settimeout(10)
    found: list[bytes | None] = []
    failures: list[Exception] = []

    def serve() -> None:
        try:
            with serving.context.wrap_socket(theirs, server_side=True) as secured:
                found.append(secured.getpeercert(binary_form=True))
                secured.sendall(secured.recv(5))
        except (ssl.SSLError, OSError) as error:
            failures.append(error)
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with asking.context.wrap_socket(ours, server_hostname=host) as secured:
            version = secured.version()
            secured.sendall(b"hello")
            if secured.recv(5) != b"hello":
                raise ConnectionError("closed")
    finally:
        ours.close()
        thread.join(10)
    return version, found[0]


def is_refused(asking: Tls, serving: Tls, host: str = "localhost") -> bool:
    try:
        exchanged(asking, serving, host)
    except (ssl.SSLError, OSError):
        return True
    return False


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_each_version_is_spoken_with_and_without_a_certificate_of_the_client(version: str) -> None:
    for who, shown in ((None, None), (CLIENT, CLIENT.leaf)):
        asked = "none" if who is None else "required"
        found = exchanged(client(who, enabled_protocols=version), server(client_auth=asked))
        assert found == (version, shown)


def test_versions_that_do_not_meet_are_refused() -> None:
    assert is_refused(client(enabled_protocols="TLSv1.2"), server(enabled_protocols="TLSv1.3"))
    assert exchanged(client(), server(enabled_protocols="TLSv1.2"))[0] == "TLSv1.2"
    assert exchanged(client(protocol="TLSv1.2"), server())[0] == "TLSv1.2"
    assert exchanged(client(protocol="TLS"), server())[0] == "TLSv1.3"


@pytest.mark.parametrize(
    ("client_auth", "who", "passes"),
    [
        ("none", None, True),
        ("none", STRANGER, True),
        ("requested", None, True),
        ("requested", CLIENT, True),
        ("requested", STRANGER, False),
        ("required", None, False),
        ("required", CLIENT, True),
        ("required", STRANGER, False),
        ("REQUIRED", None, False),
    ],
)
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_client_auth_is_what_it_says(client_auth: str, who: Identity | None, passes: bool, version: str) -> None:
    asking = client(who, enabled_protocols=version)
    assert is_refused(asking, server(client_auth=client_auth)) is not passes


def test_a_server_of_another_authority_or_an_expired_one_is_refused() -> None:
    assert is_refused(client(), server(STRANGER))
    assert is_refused(client(), server(signed(CA, "broker", days=-1)))


def test_a_servers_name_is_checked_unless_that_is_switched_off() -> None:
    assert not is_refused(client(), server(), "127.0.0.1")
    assert is_refused(client(), server(), "elsewhere")
    unchecked = client(endpoint_identification_algorithm="")
    assert not is_refused(unchecked, server(), "elsewhere")
    assert is_refused(unchecked, server(STRANGER), "elsewhere")


def test_an_intermediate_authority_may_be_trusted_alone_as_in_java() -> None:
    between = authority("Between", above=CA)
    trust = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": Identity(between.key, between.chain[:1]).chain_pem(),
    }
    asking = Tls(TlsSettings.of(trust), server=False)
    assert not is_refused(asking, server(signed(between, "broker")))
    assert is_refused(asking, server())


def test_iana_names_of_ciphers_are_opensslss() -> None:
    assert [
        openssl_cipher(each)
        for each in (
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256",
            "TLS_RSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-RSA-AES128-SHA",
        )
    ] == [
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "DHE-RSA-AES256-SHA256",
        "AES256-GCM-SHA384",
        "ECDHE-RSA-AES128-SHA",
    ]


def test_a_named_cipher_is_the_one_that_is_used_and_versions_without_one_are_not_spoken() -> None:
    one = client(cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")
    assert exchanged(one, server())[0] == "TLSv1.2"
    assert is_refused(one, server(cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"))
    newer = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"
    assert exchanged(client(cipher_suites=newer), server())[0] == "TLSv1.3"
    assert is_refused(client(cipher_suites=newer), server(enabled_protocols="TLSv1.2"))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"enabled_protocols": "TLSv1.1"}, "must be one of TLSv1.2, TLSv1.3"),
        ({"protocol": "SSLv3"}, "must be one of TLSv1.2, TLSv1.3"),
        ({"protocol": "TLSv1.2", "enabled_protocols": "TLSv1.3"}, "older than all of ssl.enabled.protocols"),
        ({"client_auth": "maybe"}, "must be one of none, requested, required"),
        ({"endpoint_identification_algorithm": "LDAPS"}, "must be https"),
        ({"cipher_suites": "TLS_MADE_UP_WITH_NOTHING"}, "OpenSSL knows none of them"),
        ({"cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_X_WITH_Y"}, "X-Y.*must be known to OpenSSL"),
        ({"cipher_suites": "TLS_AES_128_GCM_SHA256", "enabled_protocols": "TLSv1.2"}, "none of them fits"),
        ({"keystore_location": "x"}, "Both SSL key store location and separate private key"),
        ({"keystore_password": "x"}, "password cannot be specified with PEM"),
        ({"truststore_password": "x"}, "password cannot be specified for PEM"),
        ({"truststore_location": "x"}, "Both SSL trust store location and separate"),
        ({"keystore_type": "JKS"}, "only for PEM"),
        ({"truststore_type": "JKS"}, "only for PEM"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(more: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        server(BROKER, **more)


@pytest.mark.skipif(
    hasattr(ssl.SSLContext, "set_ciphersuites"), reason="this Python can choose among TLS 1.3's ciphers"
)
def test_a_choice_among_ciphers_of_tls_1_3_that_this_python_cannot_make_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"this Python cannot choose among TLS 1\.3's"):
        server(cipher_suites="TLS_AES_256_GCM_SHA384")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "a TLS listener needs a key store"),
        ({"ssl.keystore.location": "absent.jks", "ssl.keystore.password": "x"}, "absent.jks: No such file"),
        ({"ssl.keystore.location": "absent.jks"}, "its password is not"),
        ({"ssl.keystore.password": "x"}, "key store is not specified"),
        ({"ssl.truststore.password": "x"}, "trust store is not specified"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": "x"}, "certificate chain is not"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "x"}, "private key is not specified"),
        ({**keys(BROKER), "ssl.keystore.key": CLIENT.key_pem()}, "OpenSSL refuses kafka: KEY_VALUES_MISMATCH"),
        ({**keys(BROKER), "ssl.keystore.key": "x"}, "it holds no private key"),
    ],
)
def test_stores_that_cannot_be_used_stop_the_start_with_the_reason(given: Properties, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Tls(TlsSettings.of(given), server=True)


def test_secrets_stand_in_no_text_of_settings() -> None:
    settings = TlsSettings.of(
        {"ssl.keystore.location": "a", "ssl.keystore.password": "mark", "ssl.key.password": "mark", **TRUST}
    )
    assert "mark" not in repr(settings) and "BEGIN" not in repr(settings)


@pytest.mark.skipif(shutil.which("keytool") is None, reason="keytool, which Java brings, is not on PATH")
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_stores_of_keytool_serve_and_trust(tmp_path: Path, kind: str) -> None:
    (tmp_path / "broker.p12").write_bytes(BROKER.p12())
    (tmp_path / "ca.pem").write_text(CA.chain_pem())
    keytool(
        *("-importkeystore", "-noprompt", "-srckeystore", tmp_path / "broker.p12", "-srcstoretype", "PKCS12"),
        *("-srcstorepass", PASSWORD, "-destkeystore", tmp_path / "key", "-deststoretype", kind),
        *("-deststorepass", PASSWORD),
    )
    keytool(
        *("-importcert", "-noprompt", "-alias", "ca", "-file", tmp_path / "ca.pem"),
        *("-keystore", tmp_path / "trust", "-storetype", kind, "-storepass", PASSWORD),
    )
    properties: Properties = {
        "ssl.keystore.location": str(tmp_path / "key"),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(tmp_path / "trust"),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
    }
    both = [Tls(TlsSettings.of(properties), server=each) for each in (True, False)]
    assert exchanged(both[1], both[0]) == ("TLSv1.3", BROKER.leaf)
    assert certificate_name(both[0].certificates[0]) == "CN=broker,O=Acme"


class Files:
    """Stores in memory, in place of a disk."""

    def __init__(self, identity: Identity) -> None:
        self.data = identity.p12()

    def read(self, path: str) -> bytes:
        return self.data


FILED: Properties = {"ssl.keystore.location": "key", "ssl.keystore.password": PASSWORD, **TRUST}


def test_a_changed_store_is_taken_over_and_an_unchanged_one_left_alone() -> None:
    files = Files(BROKER)
    serving = Tls(TlsSettings.of(FILED), server=True, read=files.read)
    before = serving.context
    assert not serving.reload() and serving.context is before
    renewed = signed(CA, "broker", hosts=("localhost", "127.0.0.1", "more"))
    files.data = renewed.p12()
    assert serving.reload(must_meet_itself=True) and serving.certificates == (renewed.leaf,)
    handshake(client(endpoint_identification_algorithm="").context, serving.context)
    assert exchanged(client(), serving)[0] == "TLSv1.3"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "neither a JKS nor a PKCS12"),
        (BROKER.p12()[:100], "damaged"),
        (BROKER.p12("other"), "password is wrong"),
        (signed(CA, "other").p12(), "Keystore DistinguishedName does not match"),
        (signed(CA, "broker", hosts=("localhost",)).p12(), "SubjectAltNames do not match: IPAddress=127.0.0.1"),
        (signed(OTHER_CA, "broker").p12(), "can't connect to a server SSLEngine"),
        (signed(CA, "broker", days=-1).p12(), "can't connect to a server SSLEngine"),
    ],
)
def test_a_refused_store_leaves_the_old_one_in_place(data: bytes, says: str) -> None:
    files = Files(BROKER)
    serving = Tls(TlsSettings.of(FILED), server=True, read=files.read)
    before = serving.context
    files.data = data
    with pytest.raises(KafkaError, match=says) as refused:
        serving.reload(must_meet_itself=True)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert serving.context is before and serving.certificates == (BROKER.leaf,)
    assert not is_refused(client(), serving)


def test_brokers_with_the_old_and_the_new_stores_must_be_able_to_talk() -> None:
    other: Properties = {**FILED, "ssl.truststore.certificates": OTHER_CA.chain_pem()}
    files = Files(BROKER)
    serving = Tls(TlsSettings.of(FILED), server=True, read=files.read)
    files.data = signed(OTHER_CA, "broker").p12()
    with pytest.raises(KafkaError, match="can't connect to a server SSLEngine"):
        serving.reload(TlsSettings.of(other), must_meet_itself=True)
    assert serving.reload(TlsSettings.of(other))


def test_no_connection_is_negotiated_twice() -> None:
    for side in (server(), client()):
        assert side.context.options & ssl.OP_NO_RENEGOTIATION


def test_other_names_are_taken_where_that_is_allowed() -> None:
    allowed: Properties = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    files = Files(BROKER)
    serving = Tls(TlsSettings.of({**FILED, **allowed}), server=True, read=files.read)
    files.data = signed(CA, "other", hosts=("localhost",)).p12()
    assert serving.reload()


def test_a_store_does_not_appear_or_vanish_under_a_listener() -> None:
    serving = Tls(TlsSettings.of({**FILED}), server=True, read=Files(BROKER).read)
    without: Properties = {key: value for key, value in FILED.items() if not key.startswith("ssl.truststore")}
    with pytest.raises(KafkaError, match="Cannot remove the SSL truststore"):
        serving.reload(TlsSettings.of(without))
    other = Tls(TlsSettings.of(without), server=True, read=Files(BROKER).read)
    with pytest.raises(KafkaError, match="Cannot add SSL truststore"):
        other.reload(TlsSettings.of(FILED))
