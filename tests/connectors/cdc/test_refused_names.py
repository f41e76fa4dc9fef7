"""Refusals are of one table, by its schema and its name, in offsets too: names may have points."""

from __future__ import annotations

import json

import pytest

from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.refused import REFUSED, Refused

FAR, NEAR = TableId("a.b", "c"), TableId("a", "b.c")
ODD = [
    FAR,
    NEAR,
    TableId("public", "t"),
    TableId("[1", "t"),
    TableId('["x","y"]', "t"),
    TableId("", "t"),
    TableId("é", '"'),
]


@pytest.mark.parametrize("table", ODD, ids=str)
def test_a_refusal_is_of_its_own_table_alone_behind_a_restart_too(table: TableId) -> None:
    refused, again = Refused(), Refused()
    refused.add(table, "why")
    again.restore(refused.kept())
    assert [each for each in ODD if each in refused] == [each for each in ODD if each in again] == [table]
    assert again.kept() == refused.kept()


def test_a_schema_that_is_gone_takes_no_table_of_a_longer_name_with_it() -> None:
    refused = Refused()
    refused.add(FAR, "why")
    refused.add(NEAR, "why")
    refused.dropped_schema("a")
    assert FAR in refused and NEAR not in refused


def test_plain_names_stand_in_offsets_as_ever() -> None:
    refused = Refused()
    refused.add(TableId("public", "t"), "why")
    assert json.loads(refused.kept()[REFUSED]) == {"public.t": "why"}


def test_an_earlier_versions_name_that_may_be_of_two_tables_refuses_both() -> None:
    refused = Refused()
    refused.restore({REFUSED: json.dumps({"a.b.c": "why"})})
    assert FAR in refused and NEAR in refused
