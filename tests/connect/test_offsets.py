"""Source offsets: keys that are found again, what may be stored, and Kafka's own file store on our file."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from ottla.connect.errors import DataError
from ottla.connect.storage import OffsetState, apply_offset, encode_offset, read_java_map, write_java_map
from tests.peer.connect import oracle


def stored(*pairs: tuple[bytes | None, bytes | None]) -> OffsetState:
    state = OffsetState()
    for key, value in pairs:
        state, ignored = apply_offset(state, key, value)
        assert ignored is None
    return state


def test_an_offset_is_kept_under_kafkas_key_and_value() -> None:
    key, value = encode_offset(OffsetState(), "file", {"filename": "/tmp/é"}, {"position": 5})
    assert key == '["file",{"filename":"/tmp/é"}]'.encode()
    assert value == b'{"position":5}'
    assert stored((key, value)).offset("file", {"filename": "/tmp/é"}) == {"position": 5}


def test_a_partition_keeps_the_key_that_it_was_first_written_under() -> None:
    state = stored((b'["c",{"b":1,"a":"x"}]', b'{"n":1}'))
    assert state.offset("c", {"a": "x", "b": 1}) == {"n": 1}
    key, value = encode_offset(state, "c", {"a": "x", "b": 1}, {"n": 2})
    assert (key, value) == (b'["c",{"b":1,"a":"x"}]', b'{"n":2}')


def test_a_tombstone_forgets_an_offset() -> None:
    state = stored((b'["c",{"p":1}]', b'{"n":1}'), (b'["d",{"p":1}]', b'{"n":7}'), (b'["c",{"p":1}]', None))
    assert state.offset("c", {"p": 1}) is None
    assert [each.offset for each in state.of_connector("d")] == [{"n": 7}]


@pytest.mark.parametrize("key", [None, b"", b"x", b"5", b'["c"]', b'["c",1]', b"[1,{}]", b'["c",{},1]'])
def test_a_key_of_another_form_is_ignored_with_a_reason(key: bytes | None) -> None:
    state, ignored = apply_offset(OffsetState(), key, b"{}")
    assert ignored and not state.stored


def test_only_flat_maps_of_plain_values_can_be_offsets() -> None:
    with pytest.raises(
        DataError, match="Offsets may only contain primitive types as values, but field a contains ARRAY"
    ):
        encode_offset(OffsetState(), "c", {"p": 1}, {"a": [1]})
    with pytest.raises(DataError, match="Offsets may only use String keys"):
        encode_offset(OffsetState(), "c", {1: 1}, {})  # type: ignore[dict-item]


@pytest.mark.parametrize("cut", [0, 3, 20, 80, 120])
def test_a_file_that_is_no_serialised_map_is_refused(cut: int) -> None:
    whole = write_java_map({b"key": b"value"})
    assert read_java_map(whole) == {b"key": b"value"}
    with pytest.raises(DataError, match="offsets file"):
        read_java_map(whole[:cut] + b"\x00" * 3)


@pytest.mark.peer
def test_kafkas_file_store_reads_the_offsets_that_ottla_writes(tmp_path: Path) -> None:
    pairs = [
        encode_offset(OffsetState(), "file", {"filename": str(number)}, {"position": number}) for number in range(30)
    ]
    (tmp_path / "offsets").write_bytes(write_java_map(dict(pairs)))
    with oracle() as ask:
        keys = [base64.b64encode(key).decode() for key, _ in pairs]
        found = ask({"op": "offsets_read", "file": str(tmp_path / "offsets"), "keys": keys})
    assert [base64.b64decode(each) for each in found] == [value for _, value in pairs]
