"""JAAS texts, read as Kafka reads them; what is printed is read back; errors hold nothing of a text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import ConfigError
from ottla.security.jaas import (
    FLAGS,
    JaasEntry,
    client_entry,
    jaas_text,
    parse_entries,
    parse_jaas_file,
    plain_users,
    server_entry,
)
from tests.security import java_texts
from tests.security.java_texts import JavaTexts

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
GOOD = [
    f'{PLAIN} required username="ann" password="x";',
    f"{PLAIN} REQUIRED username='ann' password='a\"b' ;",
    f"{PLAIN}\n  optional\n\tusername = ann\r\n password=a1.b_c$d-e;",
    f"{SCRAM} sufficient;",
    f"/* a */ {PLAIN} // b\n requisite a=b; // end",
    f'{PLAIN} required a="\\"\\\\\\n\\t\\a\\b\\f\\r\\v\\x\\101\\0\\18";',
    f'{PLAIN} required "a b"="c";',
    f'"{PLAIN}" "required" a="";',
    f"{PLAIN} required a=é€;",
    f'{PLAIN} required a="x" a="y";',
    f"{PLAIN} required a=b\U0001f600;",
    f"{PLAIN} required a=b\xa0c;",
    f"{PLAIN} required a=b/c\n;",
    f'{PLAIN} required a="//no comment";',
    f'{PLAIN} required a="b"c=d;',
]
BAD = [
    "",
    "   // nothing",
    ";",
    PLAIN,
    f"{PLAIN};",
    f"{PLAIN} maybe;",
    f"{PLAIN} required",
    f'{PLAIN} required a="b"',
    f"{PLAIN} required a;",
    f"{PLAIN} required a=;",
    f"{PLAIN} required =b;",
    f"{PLAIN} required a=b c;",
    f"{PLAIN} required a==b;",
    f"{PLAIN} required a=b; {SCRAM}",
    f"= {PLAIN} required;",
    *(
        f"{PLAIN} required a={value};"
        for value in ("1234", "1.5e7x", "-5", ".a", "-", "b,c", "b:c", "b@c", "b\x85c", "b\\c")
    ),
]
ALSO_BAD = [f'{PLAIN} required a="b;\n', f"{PLAIN} required; /* no end", f'{PLAIN} required a="b\nc";']
"""Java takes a quote that does not end for a text up to the line's end."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTexts]:
    with java_texts.running() as found:
        yield found


def read(text: str) -> list[list[object]] | None:
    try:
        return [[each.module, each.flag, dict(each.options)] for each in parse_entries(text)]
    except ConfigError:
        return None


@pytest.mark.peer
@pytest.mark.parametrize("text", GOOD)
def test_kafka_reads_the_same(java: JavaTexts, text: str) -> None:
    found = read(text)
    assert found is not None and found == java.found("jaas", text)


@pytest.mark.parametrize("text", BAD + ALSO_BAD)
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config: .*\(line \d+\)"):
        parse_entries(text)


@pytest.mark.peer
@pytest.mark.parametrize("text", BAD)
def test_kafka_refuses_the_same(java: JavaTexts, text: str) -> None:
    assert java.found("jaas", text) is None


WORDS = st.text(st.sampled_from("abAB19._$-é€\"'\\/;= {}\n\t\0\U0001f600"), min_size=1, max_size=8)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | WORDS | st.just("")
ENTRIES = st.builds(JaasEntry, WORDS, st.sampled_from(FLAGS), st.dictionaries(WORDS, VALUES, max_size=4))


@given(st.lists(ENTRIES, min_size=1, max_size=4))
def test_what_is_printed_is_read_back(entries: list[JaasEntry]) -> None:
    assert parse_entries(jaas_text(entries)) == entries


@pytest.mark.peer
@given(entry=ENTRIES)
def test_kafka_reads_what_is_printed(java: JavaTexts, entry: JaasEntry) -> None:
    found = java.found("jaas", jaas_text([entry]))
    assert found == [[entry.module, entry.flag, dict(entry.options)]]


@given(st.dictionaries(st.text("abc.", min_size=1).filter(str.isalpha), st.lists(ENTRIES, min_size=1, max_size=3)))
def test_a_files_sections_are_read_back(sections: dict[str, list[JaasEntry]]) -> None:
    text = "\n".join(f"{name} {{\n{jaas_text(entries)}\n}};" for name, entries in sections.items())
    if "${" in str([each.options for entries in sections.values() for each in entries]):
        return
    assert parse_jaas_file(text) == sections


@given(st.text(st.sampled_from("ab \n\"'\\/*;={}1$"), max_size=40))
def test_hostile_texts_are_refused_and_never_crash(text: str) -> None:
    for parse in (parse_entries, parse_jaas_file):
        try:
            parse(text)
        except ConfigError:
            continue


def test_errors_hold_nothing_of_the_text() -> None:
    secret = "s3cr3t"
    for text in (
        f'{PLAIN} required password="a"{secret}"b";',
        f"{PLAIN} required password=a {secret};",
        f"{PLAIN} {secret};",
        f'{PLAIN} required password="{secret}',
        f"{PLAIN} required password={secret}\x85;",
    ):
        with pytest.raises(ConfigError) as refused:
            parse_entries(text)
        assert secret not in str(refused.value) + str(refused.value.value)
    with pytest.raises(ConfigError, match="Value not specified for key 'password'"):
        parse_entries(f"{PLAIN} required password=;")
    assert secret not in repr(parse_entries(f"{PLAIN} required password={secret};"))


FILE = f"""
// brokers
KafkaServer {{
    {PLAIN} required username="broker" password="b" user_broker="b" user_ann="x, y";
    {SCRAM} required username="broker" password="b";
}};
inner.KafkaServer {{ {PLAIN} required user_only="z"; }};
KafkaClient {{ {SCRAM} required username="ann" password="x" tokenauth=true; }};
"""


def test_a_listener_takes_its_own_setting_then_its_section_then_everybodys() -> None:
    file = parse_jaas_file(FILE)
    assert plain_users(server_entry(None, file, listener="OUTER", mechanism="PLAIN")) == {"broker": "b", "ann": "x, y"}
    assert plain_users(server_entry(None, file, listener="INNER", mechanism="PLAIN")) == {"only": "z"}
    inline = f"{PLAIN} required user_me=m;"
    assert plain_users(server_entry(inline, file, listener="INNER", mechanism="PLAIN")) == {"me": "m"}
    assert server_entry(None, file, listener="OUTER", mechanism="SCRAM-SHA-512").module == SCRAM
    with pytest.raises(ConfigError, match="0 login modules are for OAUTHBEARER"):
        server_entry(None, file, listener="OUTER", mechanism="OAUTHBEARER")
    with pytest.raises(ConfigError, match=r"Could not find a 'KafkaServer' or 'outer\.KafkaServer' entry"):
        server_entry(None, None, listener="OUTER", mechanism="PLAIN")


def test_a_client_takes_its_setting_then_its_section() -> None:
    file = parse_jaas_file(FILE)
    assert client_entry(None, file, "SCRAM-SHA-256").options["tokenauth"] == "true"
    assert client_entry(f"{PLAIN} required a=b;", file, "PLAIN").options == {"a": "b"}
    with pytest.raises(ConfigError, match="contains 2 login modules, should be 1 module"):
        client_entry(f"{PLAIN} required; {PLAIN} required;", None, "PLAIN")
    with pytest.raises(ConfigError, match="Could not find a 'KafkaClient' entry"):
        client_entry(None, {}, "PLAIN")


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "com.ibm.security.auth.module.Krb5LoginModule",
        "my.own.Module",
    ],
)
def test_no_other_module_is_let_in_anywhere(module: str) -> None:
    says = "a login module is not allowed"
    for text in (f"{module} required;", f"{PLAIN} required; {module} optional;"):
        with pytest.raises(ConfigError, match=says):
            server_entry(text, None, listener="X", mechanism="PLAIN")
    with pytest.raises(ConfigError, match=says):
        client_entry(f"{module} required;", None, "PLAIN")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("KafkaServer", "lacks a '{'"),
        (f"KafkaServer {{ {PLAIN} required; }}", "lacks a ';'"),
        (f"KafkaServer {{ {PLAIN} required; ", "lacks a '}'"),
        ("KafkaServer { };", "has no login module"),
        (f"KafkaServer {{ {PLAIN} required; }}; " * 2, "stands twice"),
        ("{ };", "must begin with its name"),
        (f"KafkaServer {{ {PLAIN} required a=12; }};", "'1' must stand in quotes"),
        (f'KafkaServer {{ {PLAIN} required a="${{user.home}}"; }};', "there are no system properties"),
    ],
)
def test_a_file_that_java_would_not_read_so_is_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_jaas_file(text)
