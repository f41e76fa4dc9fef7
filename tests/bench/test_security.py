"""The benchmark of security runs: each of its cases once, with next to no load, on Ottla alone."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.__main__ import available_modes
from bench.protection import LoginRefusedError, protected
from bench.secured import TOPIC, Keys, entries, keys, login_port, started_pair, started_secured, tls_port
from bench.security import Family, Kind, acl_cases, families, idle_case, run_family, tls_cases
from bench.security_page import page
from bench.systems import System
from bench.visitors import Visit, staying
from ottla.security import PatternType

ROOT = Path(__file__).resolve().parents[2]
TINY = 0.002
MODE = available_modes()[0]
CASES = [case.name for case in tls_cases(Keys(Path(), Path()), scale=TINY)]


@pytest.fixture(scope="module")
def secrets() -> Iterator[Keys]:
    with keys() as found:
        yield found


@pytest.fixture(scope="module")
def system(secrets: Keys) -> Iterator[System]:
    with started_secured(MODE, secrets) as found:
        yield found


def test_the_case_of_idle_connections_measures_all_its_figures(secrets: Keys) -> None:
    case = idle_case(secrets, 20)
    assert case.run(Kind(MODE)).keys() == {each.name for each in case.metrics}


@pytest.mark.parametrize("name", CASES)
def test_a_case_of_tls_measures_all_its_figures(name: str, secrets: Keys, system: System) -> None:
    (case,) = (each for each in tls_cases(secrets, scale=TINY) if each.name == name)
    assert case.run(system).keys() == {each.name for each in case.metrics}


def test_the_case_of_acls_measures_all_its_figures_and_says_what_others_had(secrets: Keys) -> None:
    cases = acl_cases(scale=TINY, turns=1)
    family = Family(cases, 1, lambda name: started_pair(name, secrets, acls=1000, scale=TINY))
    rows = run_family(family, [MODE], [MODE])
    assert [row.metric for row in rows] == [each.name for each in cases[0].metrics]
    assert all(row.ottla is not None and row.others is not None for row in rows)


def test_a_load_that_is_told_of_an_authority_speaks_tls_of_the_cipher_that_is_measured(
    secrets: Keys, system: System
) -> None:
    plain = socket.create_connection(("127.0.0.1", tls_port(system)), timeout=30)
    with protected(plain, trust=str(secrets.trusted)) as connection:
        assert type(connection).__name__ == "SSLSocket"


def test_a_load_whose_login_is_refused_says_so(system: System) -> None:
    plain = socket.create_connection(("127.0.0.1", login_port(system)), timeout=30)
    with plain, pytest.raises(LoginRefusedError, match="nobody"):
        protected(plain, user="nobody:wrong")


def test_visitors_who_cannot_come_in_are_an_error(secrets: Keys, system: System) -> None:
    visit = Visit("idle", system.port, str(secrets.trusted), count=1)  # they speak TLS where nobody else does
    with pytest.raises(RuntimeError, match="visitors failed"), staying(visit):
        raise AssertionError("they are not there")


def test_one_entry_alone_lets_the_writer_write() -> None:
    found = entries(10_000)
    assert len(found) == 10_000
    about = [each for each in found if each.principal == "User:ann" and each.resource_name in (TOPIC, TOPIC[:4])]
    assert [each.resource_pattern_type for each in about] == [PatternType.PREFIXED]


def test_the_page_of_what_security_costs_is_made_of_the_kept_result() -> None:
    kept = ROOT / "bench" / "results" / "security.json"
    text = page(json.loads(kept.read_text()), kept.with_suffix(".md").read_text())
    assert text == (ROOT / "docs" / "security-benchmark.md").read_text()


def test_every_figure_has_a_row_in_the_kept_result() -> None:
    rows = {each["metric"] for each in json.loads((ROOT / "bench" / "results" / "security.json").read_text())}
    cases = [case for family in families(Keys(Path(), Path()), scale=1) for case in family.cases]
    assert {metric.name for case in cases for metric in case.metrics} == rows
