"""Numbers that a browser would round reach it as text."""

from __future__ import annotations

from ottla.console.exact import SAFE_MAX, exact


def test_whole_numbers_beyond_a_browsers_are_texts_wherever_they_stand() -> None:
    beyond = SAFE_MAX + 2
    assert exact([SAFE_MAX, beyond, -beyond, True, 1.5, "x", None]) == [
        *(SAFE_MAX, str(beyond), str(-beyond)),
        *(True, 1.5, "x", None),
    ]
    assert exact({"a": {"b": [beyond]}}) == {"a": {"b": [str(beyond)]}}
