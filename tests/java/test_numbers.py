"""Numbers are written as Java writes them, and maps are gone through in Java's order."""

from __future__ import annotations

import base64
import math
import struct
import subprocess
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.java import double_text, float32, float_text, hash_ordered
from tests import peer

DOUBLES = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1.0, "1.0"),
    (100.0, "100.0"),
    (0.001, "0.001"),
    (0.0009999, "9.999E-4"),
    (9999999.0, "9999999.0"),
    (1e7, "1.0E7"),
    (1.048576e7, "1.048576E7"),
    (123456789.125, "1.23456789125E8"),
    (1e23, "1.0E23"),
    (2e23, "2.0E23"),
    (2.0**-44, "5.684341886080802E-14"),
    (1e21, "1.0E21"),
    (5e-324, "4.9E-324"),
    (1e-323, "9.9E-324"),
    (1.5e-323, "1.5E-323"),
    (2e-323, "2.0E-323"),
    (2.2250738585072014e-308, "2.2250738585072014E-308"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
]
FLOATS = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (0.1, "0.1"),
    (1 / 3, "0.33333334"),
    (16777216.0, "1.6777216E7"),
    (9999999.0, "9999999.0"),
    (1e10, "1.0E10"),
    (2.0**-149, "1.4E-45"),
    (2.0**-148, "2.8E-45"),
    (3 * 2.0**-149, "4.2E-45"),
    (2.0**-126, "1.1754944E-38"),
    (3.4028234663852886e38, "3.4028235E38"),
    (8.0e-44, "8.0E-44"),
    (2.0**87, "1.5474251E26"),
    (1e39, "Infinity"),
    (-1e39, "-Infinity"),
]


@pytest.mark.parametrize(("value", "text"), DOUBLES)
def test_a_double_is_written_as_double_to_string_does(value: float, text: str) -> None:
    assert double_text(value) == text
    assert double_text(-value) == (text[1:] if text.startswith("-") else f"-{text}")


@pytest.mark.parametrize(("value", "text"), FLOATS)
def test_a_float_is_written_as_float_to_string_does(value: float, text: str) -> None:
    assert float_text(value) == text


def test_no_number_has_one_text() -> None:
    assert (double_text(math.nan), float_text(-math.nan)) == ("NaN", "NaN")


@given(st.floats(allow_nan=False))
@example(9.007199254740993e22)
def test_a_doubles_text_is_read_as_the_same_number_and_no_shorter_one_is(value: float) -> None:
    text = double_text(value)
    assert float(text.replace("Infinity", "inf")) == value
    if math.isfinite(value) and value:
        assert _digits(text) == max(2, _digits(repr(value))), text


@given(st.integers(0, (1 << 31) - (1 << 23) - 1))
def test_a_floats_text_is_the_nearest_of_the_shortest(bits: int) -> None:
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    text = float_text(value)
    found = Decimal(text)
    assert float32(float(found)) == value
    digits = _digits(text)
    if digits > 2:  # with one digit less none is read as this number
        step = Decimal((0, (1,), found.adjusted() - digits + 2))
        below = (Decimal(value) // step) * step
        assert all(float32(float(each)) != value for each in (below, below + step))
    step = Decimal((0, (1,), found.adjusted() - digits + 1))
    for near in (found - step, found + step):
        if float32(float(near)) == value:
            assert abs(near - Decimal(value)) >= abs(found - Decimal(value)), (text, near)


def _digits(text: str) -> int:
    """How many digits a text of a number has, two at least, without zeros before and behind them."""
    figures = Decimal(text).normalize().as_tuple().digits
    return max(2, len(figures))


def test_a_key_that_comes_again_changes_no_order() -> None:
    assert hash_ordered(["b", "a", "b"]) == ["a", "b"]


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.skipif(peer.missing() is not None, reason=str(peer.missing()))
def test_a_jvm_reads_and_orders_what_we_write() -> None:
    """Before JDK 19 Java wrote some numbers with more digits than it needs to read them: ours may be shorter."""
    rng = Random(20)
    doubles = [rng.getrandbits(64) - (1 << 63) for _ in range(100_000)] + [each * 1023 for each in range(5_000)]
    floats = [rng.getrandbits(32) - (1 << 31) for _ in range(100_000)] + list(range(2_000))
    maps = [_keys(rng) for _ in range(5_000)]
    questions = [f"d {each}" for each in doubles] + [f"f {each}" for each in floats]
    texts = [double_text(_double(each)) for each in doubles] + [float_text(_float(each)) for each in floats]
    questions += [f"{'p' if number < len(doubles) else 'q'} {text}" for number, text in enumerate(texts)]
    questions += [" ".join(("m", *map(_word, each))) for each in maps]
    answers = iter(_asked(questions))
    theirs = [next(answers) for _ in texts]
    read = [int(next(answers)) for _ in texts]
    for text, their, bits, given_bits in zip(texts, theirs, read, [*doubles, *floats], strict=True):
        assert text == their or (len(text) <= len(their) and (bits == given_bits or "NaN" in text)), (text, their)
    assert sum(text == their for text, their in zip(texts, theirs, strict=True)) > 0.9 * len(texts)
    for keys in maps:
        assert " ".join(map(_word, hash_ordered(keys))) == next(answers), keys


def _keys(rng: Random) -> list[object]:
    kinds = (
        lambda: "".join(rng.choice("aZ0é☃𝄞_") for _ in range(rng.randrange(6))),
        lambda: rng.randrange(-1_000, 1_000),
        lambda: rng.choice((-1, 1)) * ((1 << 31) + 1 + rng.getrandbits(61)),
        lambda: rng.random() < 0.5,
    )
    kind = rng.choice(kinds)
    return list(dict.fromkeys(kind() for _ in range(rng.choice((1, 5, 13, 40, 200)))))


def _word(key: object) -> str:
    if isinstance(key, str):
        return f"s{base64.b64encode(key.encode()).decode()}"
    if isinstance(key, bool):
        return f"b{str(key).lower()}"
    assert isinstance(key, int)
    return f"i{key}" if -(1 << 31) <= key < 1 << 31 else f"l{key}"


def _double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def _float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def _asked(questions: list[str]) -> list[str]:
    command = ["java", *peer.program(Path(peer.__file__).with_name("JavaTexts.java"))]
    found = subprocess.run(command, input="\n".join(questions), capture_output=True, text=True, check=True, timeout=120)
    return found.stdout.splitlines()
