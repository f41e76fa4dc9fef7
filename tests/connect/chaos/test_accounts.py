"""The account of made-up runs: it finds what is missing, what is strange, and what is there too often."""

from __future__ import annotations

from pathlib import Path

from tests.connect.chaos.accounts import Account, files_of


def test_what_is_where_it_has_to_be_is_right() -> None:
    account = Account()
    account.hold("topic", [1, 2, 2], [2, 1, 2], once=True)
    assert (account.wrong, account.lost, account.duplicated, account.repeated) == ([], 0, 0, 0)


def test_a_record_that_is_nowhere_is_lost_and_named() -> None:
    account = Account()
    account.hold("topic", [1, 2, 3], [1, 3], once=False)
    assert account.lost == 1
    assert account.wrong == ["topic: 1 missing: 2"]


def test_a_record_that_nobody_wrote_is_strange() -> None:
    account = Account()
    account.hold("file", ["1"], ["1", "11"], once=False)
    assert account.wrong == ["file: 1 that should not be there: 11"]


def test_a_second_copy_is_wrong_where_once_was_promised_and_counted_elsewhere() -> None:
    account = Account()
    account.hold("topic", [1, 2], [1, 1, 1, 2], once=True)
    assert (account.duplicated, account.repeated) == (2, 0)
    assert account.wrong == ["topic: 1 more than once: {1: 3}"]
    account = Account()
    account.hold("file", [1, 2], [1, 1, 1, 2], once=False)
    assert (account.duplicated, account.repeated, account.wrong) == (0, 2, [])


def test_what_is_staged_or_hidden_is_no_file_of_the_lake(tmp_path: Path) -> None:
    for name in ("lines/partition=0/a.json", "_ottla/lake/staging/b.json", "lines/.c.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    assert files_of(tmp_path) == ["lines/partition=0/a.json"]
