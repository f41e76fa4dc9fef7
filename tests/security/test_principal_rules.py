"""Names of certificates and of Kerberos, and what rules make of them, here and in Kafka."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.x509 import NameAttribute, RelativeDistinguishedName
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import ConfigError
from ottla.security.der import DerError
from ottla.security.distinguished_names import name_text
from ottla.security.principal_rules import KerberosRules, NoRuleError, SslRules
from tests.security import java_texts
from tests.security.java_texts import JavaTexts

NAME = "CN=Ann,OU=ServiceUsers,O=Acme,C=DE"
SSL = [
    ("DEFAULT", NAME),
    ("", NAME),
    ("RULE:^CN=([^,]+),.*$/$1/L,DEFAULT", NAME),
    ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", NAME),
    ("RULE:^CN=(.*?),OU=Other.*$/$1/, RULE:^CN=(\\w+),.*$/$1@x/U ,DEFAULT", NAME),
    ("RULE:^CN=(.*?),OU=Other.*$/$1/", NAME),
    ("RULE:^CN=([^,]+).*$/$1-$9/", NAME),
    ("RULE:^CN=([^,]+).*$/$12/", NAME),
    ("RULE:^CN=([^,]+).*$/$0/", "CN=x"),
    ("RULE:CN=Ann/x/", NAME),
    ("RULE:^CN=a\\/b,.*$/c\\/d/,DEFAULT", "CN=a/b,O=x"),
    ("RULE:^CN=(?<who>[^,]+),.*$/$1/L", NAME),
    ("RULE:.*/a\\$b/", "x"),
    ("RULE:^(.*)$/$1/U", "CN=straße"),
    ("RULE:^CN=([^,]+),OU=([^,]+),.*$/$2.$1/L", NAME),
    ("RULE:a", NAME),
    ("RULE:a/b", NAME),
    ("RULE:a/b/LL,DEFAULT", NAME),
    ("XYZ", NAME),
    ("DEFAULTX", NAME),
    ("RULE:(/b/", NAME),
]
KERBEROS = [
    (["DEFAULT"], "kafka/host@REALM"),
    (["DEFAULT"], "kafka@OTHER"),
    (["DEFAULT"], "simple"),
    (["RULE:[1:$1]"], "ann@OTHER"),
    (["RULE:[1:$1]"], "ann/host@OTHER"),
    (["RULE:[2:$1-$2]"], "ann/host@OTHER"),
    (["RULE:[1:$1@$0](.*@OTHER)s/@.*//"], "ann@OTHER"),
    (["RULE:[1:$1@$0](.*@OTHER)s/@.*//L", "DEFAULT"], "ANN@OTHER"),
    (["RULE:[1:$1@$0](.*@OTHER)s/@.*///L", "DEFAULT"], "ANN@OTHER"),
    (["RULE:[1:$1]/U"], "ann@OTHER"),
    (["RULE:[1:$1]/"], "ann@OTHER"),
    (["RULE:[1:$1](a.*)s/a/b/g"], "anna@OTHER"),
    (["RULE:[1:$1](a.*)s/a/b/"], "anna@OTHER"),
    (["RULE:[1:$1@$0]"], "ann@OTHER"),
    (["RULE:[1:$3]"], "ann@OTHER"),
    (["RULE:[:$1]"], "ann@OTHER"),
    (["NONE"], "ann@OTHER"),
]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTexts]:
    with java_texts.running() as found:
        yield found


def by_ssl(rules: str, name: str) -> str | None:
    try:
        return SslRules(rules).user(name)
    except (ConfigError, NoRuleError):
        return None


def by_kerberos(rules: list[str], name: str) -> str | None:
    try:
        return KerberosRules(rules, realm="REALM").user(name)
    except (ConfigError, NoRuleError):
        return None


@pytest.mark.peer
@pytest.mark.parametrize(("rules", "name"), SSL)
def test_kafka_makes_the_same_of_a_certificates_name(java: JavaTexts, rules: str, name: str) -> None:
    if rules:
        assert by_ssl(rules, name) == java.found("ssl", name, rules)


@pytest.mark.peer
@pytest.mark.parametrize(("rules", "name"), KERBEROS)
def test_kafka_makes_the_same_of_a_kerberos_name(java: JavaTexts, rules: list[str], name: str) -> None:
    assert by_kerberos(rules, name) == java.found("kerberos", name, rules)


def test_a_rule_for_kerberos_may_end_with_a_stroke_that_no_letter_follows() -> None:
    assert by_kerberos(["RULE:[1:$1]/"], "ann@OTHER") == "ann"
    assert by_kerberos(["RULE:[1:$1](a.*)s/a/b//"], "ann@OTHER") == "bnn"


def attributes(kinds: tuple[x509.ObjectIdentifier, ...]) -> st.SearchStrategy[NameAttribute[str]]:
    texts = st.text(st.sampled_from('ab ,+=#<>;"\\/é€\U0001f600\t.'), min_size=1, max_size=8)
    return st.builds(NameAttribute, st.sampled_from(kinds), texts)


KINDS = (
    *(NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.TITLE),
    *(NameOID.STREET_ADDRESS, NameOID.STATE_OR_PROVINCE_NAME, NameOID.LOCALITY_NAME, NameOID.USER_ID),
)


@pytest.mark.peer
@given(st.lists(attributes(KINDS), max_size=4), st.booleans())
def test_java_writes_the_same_name(java: JavaTexts, parts: list[NameAttribute[str]], as_one: bool) -> None:
    unique = list({each.oid: each for each in parts}.values())
    name = x509.Name([RelativeDistinguishedName(unique)]) if as_one and unique else x509.Name(parts)
    data = name.public_bytes()
    assert name_text(data) == java.found("name", b64encode(data).decode())


def test_a_name_is_written_leaf_first_without_blanks_and_an_e_mail_by_number() -> None:
    name = x509.Name(
        [
            NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            NameAttribute(NameOID.ORGANIZATION_NAME, "Acme, Inc."),
            NameAttribute(NameOID.EMAIL_ADDRESS, "a@b"),
            NameAttribute(NameOID.COMMON_NAME, "ann"),
        ]
    )
    assert name_text(name.public_bytes()) == "CN=ann,1.2.840.113549.1.9.1=#1603614062,O=Acme\\, Inc.,C=DE"


@given(st.binary(max_size=40))
def test_hostile_names_are_refused_and_never_crash(data: bytes) -> None:
    for each in (data, x509.Name([NameAttribute(NameOID.COMMON_NAME, "ann")]).public_bytes()[: len(data)]):
        try:
            name_text(each)
        except DerError:
            continue


def test_the_rule_of_kafkas_documentation_gives_a_lower_case_name() -> None:
    assert SslRules("RULE:^CN=([^,]+),.*$/$1/L,DEFAULT").user("CN=Ann,OU=x") == "ann"
    with pytest.raises(NoRuleError, match="No rules apply to CN=x"):
        SslRules("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/").user("CN=x")


@pytest.mark.parametrize(
    "rules", ["RULE:a", "RULE:a/b", "RULE:a/b/LX", "XYZ", "DEFAULTS", "RULE:(/b/", "RULE:a/b/L x,DEFAULT"]
)
def test_what_is_no_rule_stops_the_start_with_the_rule(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules: Invalid rule"):
        SslRules(rules)


@given(st.text(st.sampled_from("RULE:DFAT/\\,$()[]*L1 "), max_size=30), st.text(max_size=10))
def test_hostile_rules_are_refused_and_never_crash(rules: str, name: str) -> None:
    by_ssl(rules, name)
    by_kerberos([rules], name)
