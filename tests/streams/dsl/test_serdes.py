"""Serdes write what Kafka's write, and say clearly what they cannot read."""

from __future__ import annotations

import enum
import pickle
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.streams import Serdes, SerializationError, TopologyError, Windowed, serde_of
from ottla.streams.dsl.aggregates import Average, AverageSerde
from ottla.streams.serdes.internal import (
    CombinedKey,
    CombinedKeySerde,
    Response,
    ResponseSerde,
    Subscription,
    SubscriptionSerde,
)

KAFKAS = [
    ("string", "grün", "6772c3bc6e"),
    ("short", -2, "fffe"),
    ("int", 258, "00000102"),
    ("long", -1, "ffffffffffffffff"),
    ("float", 1.5, "3fc00000"),
    ("double", -2.5, "c004000000000000"),
    ("boolean", True, "01"),
    ("bytes", b"\x00\xff", "00ff"),
    ("uuid", UUID("12345678-1234-5678-1234-567812345678"), b"12345678-1234-5678-1234-567812345678".hex()),
    ("json", {"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'.encode().hex()),
]


@pytest.mark.parametrize(("name", "value", "written"), KAFKAS)
def test_a_serde_writes_and_reads_kafkas_bytes(name: str, value: object, written: str) -> None:
    serde = serde_of(name)
    assert serde.serialize(value) == bytes.fromhex(written)
    assert serde.deserialize(bytes.fromhex(written)) == value
    assert serde.serialize(None) is None and serde.deserialize(None) is None


def test_void_is_null_and_nothing_else() -> None:
    assert Serdes.void().serialize(None) is None
    with pytest.raises(SerializationError, match="void"):
        Serdes.void().serialize("x")
    with pytest.raises(SerializationError, match="void"):
        Serdes.void().deserialize(b"")


def test_lists_are_kafkas_with_nulls_by_index_or_by_size() -> None:
    # ListSerializer (KIP-466): flag 0 with the indexes of nulls for elements of a fixed size, flag 1 with sizes for others
    numbers, texts = Serdes.list("int"), Serdes.list("string")
    assert numbers.serialize([7, None]) == bytes.fromhex("0000000001000000010000000200000007")
    assert texts.serialize(["a", None]) == bytes.fromhex("01000000020000000161ffffffff")
    for serde, value in ((numbers, [7, None, -1]), (texts, ["a", None, ""]), (texts, [])):
        assert serde.deserialize(serde.serialize(value)) == value
    with pytest.raises(SerializationError, match="no list"):
        texts.deserialize(bytes.fromhex("010000000500000001"))


@pytest.mark.parametrize(
    ("name", "data"),
    [("long", b"1234"), ("boolean", b"\x02"), ("uuid", b"none"), ("json", b"{"), ("double", b"")],
)
def test_bytes_that_are_no_such_value_are_refused(name: str, data: bytes) -> None:
    with pytest.raises(SerializationError, match=name):
        serde_of(name).deserialize(data)


def test_malformed_text_is_read_as_java_reads_it() -> None:
    assert Serdes.string().deserialize(b"a\xffb") == "a�b"


class Kind(enum.Enum):
    BUY = "buy"
    SELL = "sell"


@dataclass(frozen=True)
class Place:
    city: str
    zip: str | None = None


@dataclass(frozen=True)
class Order:
    id: UUID
    amount: float
    at: datetime
    day: date
    kind: Kind
    place: Place
    lines: list[Place] = field(default_factory=list)
    tags: dict[str, int] = field(default_factory=dict)
    price: Decimal = Decimal("1.10")
    way: Literal["air", "sea"] = "air"
    data: bytes = b""
    extra: Any = None


ORDER = Order(
    UUID(int=5),
    2,
    datetime(2026, 1, 2, 3, 4, 5, 6000, UTC),
    date(2026, 1, 2),
    Kind.SELL,
    Place("Bern"),
    [Place("Ulm", "89073")],
    {"a": 1},
    data=b"\x00",
)


def test_a_dataclass_is_typed_json_in_the_order_of_its_fields() -> None:
    serde = serde_of(Order)
    written = serde.serialize(ORDER)
    assert written is not None
    assert written.startswith(
        b'{"id":"00000000-0000-0000-0000-000000000005","amount":2.0,"at":"2026-01-02T03:04:05.006Z",'
    )
    assert serde.deserialize(written) == ORDER
    assert serde.sql_type is not None and "`place`: struct<`city`: string, `zip`: string>" in serde.sql_type


def test_a_missing_field_takes_its_default_and_is_named_where_it_has_none() -> None:
    serde = serde_of(Place)
    assert serde.deserialize(b'{"city":"Ulm","more":1}') == Place("Ulm")
    with pytest.raises(SerializationError, match="field 'city' is missing"):
        serde.deserialize(b"{}")
    with pytest.raises(SerializationError, match=r"Place.city: expected a text, got 1"):
        serde.deserialize(b'{"city":1}')


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_untyped_json_comes_back_as_it_went(value: Any) -> None:
    assert Serdes.json().deserialize(Serdes.json().serialize(value)) == value


def test_windowed_keys_are_kafkas() -> None:
    timed, session = Serdes.time_windowed(str, 10), Serdes.session_windowed(str)
    assert timed.serialize(Windowed("k", 5, 15)) == b"k" + (5).to_bytes(8)
    assert session.serialize(Windowed("k", 5, 9)) == b"k" + (9).to_bytes(8) + (5).to_bytes(8)
    assert timed.deserialize(b"k" + (5).to_bytes(8)) == Windowed("k", 5, 15)
    assert session.deserialize(b"k" + (9).to_bytes(8) + (5).to_bytes(8)) == Windowed("k", 5, 9)


def test_a_foreign_key_joins_questions_and_answers_are_kafkas() -> None:
    hash_ = bytes(range(16))
    asked = SubscriptionSerde(Serdes.string())
    assert asked.serialize(Subscription("k", 2, hash_, 3)) == b"\x01\x02" + hash_ + b"k" + (3).to_bytes(4)
    assert asked.serialize(Subscription("k", 1, None, 3)) == b"\x81\x01k" + (3).to_bytes(4)
    answered = ResponseSerde(Serdes.long())
    assert answered.serialize(Response(hash_, None)) == b"\x00" + hash_
    for serde, value in (
        (asked, Subscription("k", 2, hash_, 3)),
        (asked, Subscription("k", 0, None, 0)),
        (answered, Response(hash_, 4)),
        (answered, Response(None, None)),
        (CombinedKeySerde(Serdes.string(), Serdes.long()), CombinedKey("right", 9)),
    ):
        assert serde.deserialize(serde.serialize(value)) == value


def test_a_type_stands_for_its_serde_and_kafkas_class_names_do_too() -> None:
    assert serde_of(str) == serde_of("org.apache.kafka.common.serialization.Serdes$StringSerde") == Serdes.string()
    assert serde_of(int) == Serdes.long() and serde_of("integer") == Serdes.int()
    with pytest.raises(TopologyError, match="no serde is called 'text'"):
        serde_of("text", "a step")


def test_an_average_goes_on_from_what_a_store_keeps() -> None:
    serde = AverageSerde()
    kept = serde.deserialize(serde.serialize(Average(3.0, 2)))
    assert kept == 1.5 and kept.added(3.0) == 2.0 and kept.taken(2.0) == 1.0
    assert kept.joined(Average(5.0, 2)) == 2.0 and Average(1.0, 1).taken(1.0) is None
    assert pickle.loads(pickle.dumps(kept)).count == 2
    assert Serdes.double().serialize(kept) == Serdes.double().serialize(1.5)
