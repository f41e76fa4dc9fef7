"""Columns that are hidden or cut: in rows of snapshots and of the stream, never in keys, which would collide."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from ottla.connect import ConnectError
from ottla.connectors.cdc import PostgresConnector
from ottla.connectors.cdc.column_masks import column_rules
from tests.connectors.cdc.replay import begun, read_until_quiet, run_sql
from tools.postgres import PostgresServer

SETTINGS = {
    "column.mask.with.5.chars": "public.t.secret, public.t.id",
    "column.truncate.to.3.chars": "public.t.(long|short|data)",
    "column.mask.hash.SHA-256.with.salt.grain": "public.t.hashed",
    "column.mask.hash.v2.SHA-256.with.salt.grain": "public.t.again",
}


def test_hidden_columns_are_hidden_in_rows_and_keys_stay(server: PostgresServer, database: str) -> None:
    run_sql(
        server,
        database,
        "create table t (id text primary key, secret varchar(20), long text, short varchar(2), data bytea, "
        "hashed varchar(20), again text, plain text, number int); "
        "insert into t values ('k1', 's', 'abcdef', 'xy', '\\x0102030405', 'a', 'a', 'p', 1), "
        "('k2', null, null, null, null, null, null, null, null)",
    )
    task = begun(server, database, **{"topic.prefix": f"mask_{database}", **SETTINGS})
    found = read_until_quiet(task, None, 0.2)
    run_sql(server, database, "update t set secret = 'other' where id = 'k1'; delete from t where id = 'k2'")
    found += read_until_quiet(task, None, 0.3)
    task.stop()
    assert [each.key["id"] for each in found] == ["k1", "k2", "k1", "k2", "k2"]
    first = found[0].value["after"]
    serialized = hashlib.sha256(b"grain\xac\xed\x00\x05t\x00\x01a").hexdigest()
    assert first.values == [
        *("*****", "*****", "abc", "xy", b"\x01\x02\x03", serialized[:20]),
        *(hashlib.sha256(b"graina").hexdigest(), "p", 1),
    ]
    assert found[1].value["after"].values == ["*****", "*****", *[None] * 7]
    assert found[2].value["after"]["secret"] == "*****"
    fields = {each.name: each.schema.parameters for each in first.schema.fields}
    assert fields["secret"] == {"masked": "true"} and fields["long"] == {"truncateLength": "3"} and not fields["short"]
    assert not found[0].key_schema.fields[0].schema.parameters
    assert "s" not in [str(each) for each in first.values]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("column.mask.with.x.chars", "a", "is no setting"),
        ("column.truncate.to.0.chars", "a", "one character at least"),
        ("column.mask.with.3.chars", "(", "are no regular expressions"),
        ("column.mask.with.3.chars", "", "names no columns"),
        ("column.mask.hash.SHA-17.with.salt.x", "a", "SHA-17 is no digest"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_an_error(name: str, value: str, words: str) -> None:
    with pytest.raises(ConnectError, match=words):
        column_rules({name: value})
    given: dict[str, Any] = {name: value, "topic.prefix": "x"}
    assert any(words in each for each in PostgresConnector().validate(given)["column.exclude.list"].errors)


def test_rules_that_cut_come_before_those_that_mask() -> None:
    rules = column_rules({"column.mask.with.0.chars": "a.b.c", "column.truncate.to.2.chars": "a.b.c"})
    assert [each.kind for each in rules] == ["truncate", "mask"]
