"""Stores that keytool wrote are read; damaged ones, wrong passwords and wrong types are refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.jks import JksError, read_jks
from ottla.security.keystores import Store, StoreError, open_pem, open_store
from tests.security.authority import PASSWORD, authority, keytool, signed

KEY_PASSWORD = "key-pass-word"
needs_keytool = pytest.mark.skipif(shutil.which("keytool") is None, reason="keytool, which Java brings, is not on PATH")

CA = authority()
BETWEEN = authority("Between", above=CA)
BROKER = signed(BETWEEN, "broker", kind="rsa")
CLIENT = signed(CA, "client")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write stores of both kinds: `key.<kind>` with a key and its chain, `trust.<kind>` with two authorities."""
    folder = tmp_path_factory.mktemp("stores")
    (folder / "broker.p12").write_bytes(BROKER.p12())
    (folder / "ca.pem").write_text(CA.chain_pem())
    (folder / "between.pem").write_text(authority("Other").chain_pem())
    for kind in ("JKS", "PKCS12"):
        key, trust = folder / f"key.{kind}", folder / f"trust.{kind}"
        own_password = ["-destkeypass", KEY_PASSWORD] if kind == "JKS" else []
        keytool(
            *("-importkeystore", "-noprompt", "-srckeystore", folder / "broker.p12", "-srcstoretype", "PKCS12"),
            *("-srcstorepass", PASSWORD, "-srcalias", "kafka", "-destalias", "kafka"),
            *("-destkeystore", key, "-deststoretype", kind, "-deststorepass", PASSWORD, *own_password),
        )
        for alias in ("ca", "between"):
            keytool(
                *("-importcert", "-noprompt", "-alias", alias, "-file", folder / f"{alias}.pem"),
                *("-keystore", trust, "-storetype", kind, "-storepass", PASSWORD),
            )
    return folder


def is_brokers(store: Store) -> bool:
    (entry,) = store.keys
    key = load_der_private_key(entry.key, None)
    same = key.private_numbers() == BROKER.key.private_numbers()  # type: ignore[union-attr]
    return same and entry.chain[0] == BROKER.leaf and len(entry.chain) == 3


@needs_keytool
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("called", ["JKS", "PKCS12", "jks"])
def test_stores_of_keytool_are_read_whatever_type_is_given(stores: Path, kind: str, called: str) -> None:
    data = (stores / f"key.{kind}").read_bytes()
    key_password = KEY_PASSWORD if kind == "JKS" else None
    assert is_brokers(open_store(data, kind=called, password=PASSWORD, key_password=key_password))
    trust = open_store((stores / f"trust.{kind}").read_bytes(), kind=called, password=PASSWORD)
    assert len(trust.trusted) == 2 and not trust.keys


@needs_keytool
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_wrong_password_is_called_so(stores: Path, kind: str) -> None:
    for name in ("key", "trust"):
        with pytest.raises(StoreError, match="the password is wrong, or the key store is damaged"):
            open_store((stores / f"{name}.{kind}").read_bytes(), kind=kind, password="other")


@needs_keytool
def test_the_keys_own_password_of_a_jks_store_must_be_right_too(stores: Path) -> None:
    data = (stores / "key.JKS").read_bytes()
    for wrong in ("other", None):
        with pytest.raises(StoreError, match="the password of the key of kafka is wrong"):
            open_store(data, kind="JKS", password=PASSWORD, key_password=wrong)


@needs_keytool
def test_a_jks_trust_store_without_a_password_is_read_as_it_is(stores: Path) -> None:
    data = (stores / "trust.JKS").read_bytes()
    assert len(open_store(data, kind="JKS", password=None).trusted) == 2


@needs_keytool
def test_a_jks_store_with_something_behind_its_entries_is_refused(stores: Path) -> None:
    data = (stores / "trust.JKS").read_bytes()
    with pytest.raises(StoreError, match="behind the last entry"):
        open_store(data[:-20] + b"x" + data[-20:], kind="JKS", password=None)


@needs_keytool
@given(data=st.data())
def test_a_damaged_jks_store_is_refused_and_never_crashes(stores: Path, data: st.DataObject) -> None:
    whole = (stores / "key.JKS").read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    with pytest.raises(JksError):
        read_jks(changed, PASSWORD)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for damaged in (changed, cut):
        try:
            store = open_store(damaged, kind="JKS", password=None, key_password=KEY_PASSWORD)
        except StoreError:
            continue
        assert len(store.keys) + len(store.trusted) <= 1


@given(st.binary(max_size=200))
def test_hostile_bytes_are_no_store(data: bytes) -> None:
    for start in (b"", b"\xfe\xed\xfe\xed\0\0\0\2", b"\xfe\xed\xfe\xed\0\0\0\2\xff\xff\xff\xff", b"0\x82"):
        for password in (None, PASSWORD):
            try:
                found = open_store(start + data, kind="JKS", password=password)
            except StoreError:
                continue
            assert password is None and not found.keys


@pytest.mark.parametrize(
    ("data", "kind", "says"),
    [
        (b"", "JKS", "neither a JKS nor a PKCS12 store"),
        (b"\xce\xce\xce\xce", "JKS", "JCEKS"),
        (CA.chain_pem().encode(), "JKS", "it is a PEM file, but its type is given as JKS"),
        (b"x", "BCFKS", "the type BCFKS is not known"),
        (b"hello", "PEM", "neither a certificate nor a private key"),
        (b"\xff", "PEM", "not text"),
        (b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----", "PEM", "the PEM of a CERTIFICATE is damaged"),
        ((CLIENT.key_pem() * 2).encode(), "PEM", "2 private keys"),
    ],
)
def test_what_is_no_such_store_is_refused_by_name(data: bytes, kind: str, says: str) -> None:
    with pytest.raises(StoreError, match=says):
        open_store(data, kind=kind, password=PASSWORD)


def test_a_pkcs12_store_with_another_password_for_the_key_says_that_there_is_none() -> None:
    with pytest.raises(StoreError, match=r"ssl\.key\.password must be the same or absent"):
        open_store(CLIENT.p12(), kind="PKCS12", password=PASSWORD, key_password="other")


@pytest.mark.parametrize("password", [None, "secret-mark"])
@pytest.mark.parametrize("blanks", ["\n", " ", "  \n"])
def test_pem_is_read_with_lines_or_blanks_and_with_an_encrypted_key(password: str | None, blanks: str) -> None:
    def spread(text: str) -> str:
        return "".join(line + blanks for line in text.splitlines())

    text = spread(BROKER.key_pem(password)) + spread(BROKER.chain_pem())
    assert is_brokers(open_pem(text, key_password=password))
    assert is_brokers(open_pem(spread(BROKER.chain_pem()) + spread(BROKER.key_pem(password)), key_password=password))


def test_an_encrypted_key_without_its_password_is_refused_without_showing_it() -> None:
    text = CLIENT.key_pem("secret-mark") + CLIENT.chain_pem()
    with pytest.raises(StoreError, match=r"encrypted and ssl\.key\.password is not set"):
        open_pem(text)
    with pytest.raises(StoreError, match="is wrong") as refused:
        open_pem(text, key_password="other-mark")
    assert "mark" not in str(refused.value)


def test_a_key_is_not_shown_where_an_entry_is_printed() -> None:
    (entry,) = open_pem(CLIENT.key_pem() + CLIENT.chain_pem()).keys
    assert "key=" not in repr(entry)
