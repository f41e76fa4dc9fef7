"""`ottla delegation-tokens`: what options it takes, and what it says where it is refused."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run

TO = "--bootstrap-server 127.0.0.1:1 --command-config /dev/null"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (TO, "Command must include exactly one action: --create, --renew, --expire or --describe"),
        (f"{TO} --create --renew", "Command must include exactly one action"),
        (f"{TO} --create", 'Missing required argument "[max-life-time-period]"'),
        (f"{TO} --renew --hmac eA==", 'Missing required argument "[renew-time-period]"'),
        (f"{TO} --renew --renew-time-period 1", 'Missing required argument "[hmac]"'),
        (f"{TO} --expire --hmac eA==", 'Missing required argument "[expiry-time-period]"'),
        ("--bootstrap-server x:1 --describe", 'Missing required argument "[command-config]"'),
        (f"{TO} --describe --hmac eA==", 'Option "[describe]" can\'t be used with option "[hmac]"'),
        (
            f"{TO} --create --max-life-time-period -1 --hmac eA==",
            'Option "[create]" can\'t be used with option "[hmac]"',
        ),
        (
            f"{TO} --renew --hmac eA== --renew-time-period -1 --owner-principal User:a",
            'with option "[owner-principal]"',
        ),
        (f"{TO} --create --max-life-time-period x", "Cannot parse argument 'x' of option max-life-time-period"),
    ],
)
def test_options_that_do_not_go_together_are_refused_in_kafkas_words(run: Run, options: str, words: str) -> None:
    found = run(f"delegation-tokens {options}")
    assert found.code == 1 and words in found.err and not found.out


def test_what_is_no_base64_is_not_printed(run: Run) -> None:
    found = run(f"delegation-tokens {TO} --renew --hmac s3cret!! --renew-time-period -1")
    assert (found.code, found.out) == (1, "") and "s3cret" not in found.err
