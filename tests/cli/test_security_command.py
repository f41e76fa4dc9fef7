"""`ottla security` writes a folder with which a broker starts and its administrator is known, or writes nothing."""

from __future__ import annotations

from pathlib import Path
from stat import S_IMODE

import pytest

from ottla.cli.main import main
from ottla.config import parse_properties
from ottla.security import Tls, TlsSettings, certificate_name
from ottla.security.tls import handshake

OWNER_ONLY = 0o600


def made(folder: Path, *words: str) -> Path:
    assert main(["security", "init", "--folder", str(folder), *words]) == 0
    return folder


def tls(path: Path, *, server: bool) -> Tls:
    properties = parse_properties(path.read_text())
    return Tls(TlsSettings.of({key: text for key, text in properties.items() if key.startswith("ssl.")}), server=server)


def test_the_broker_and_its_administrator_trust_each_other(tmp_path: Path) -> None:
    folder = made(tmp_path / "made")
    broker, admin = tls(folder / "server.properties", server=True), tls(folder / "admin.properties", server=False)
    handshake(admin.context, broker.context)
    assert [certificate_name(each.certificates[0]) for each in (broker, admin)] == ["CN=broker", "CN=admin"]


def test_what_is_private_is_readable_for_its_owner_only(tmp_path: Path) -> None:
    folder = made(tmp_path / "made")
    assert {S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {OWNER_ONLY}


def test_the_first_host_is_told_to_clients(tmp_path: Path) -> None:
    folder = made(tmp_path / "made", "--host", "kafka.example", "--host", "10.0.0.1")
    properties = parse_properties((folder / "server.properties").read_text())
    assert properties["advertised.listeners"] == "SASL_SSL://kafka.example:9092,SSL://kafka.example:9093"
    assert properties["listeners"] == "SASL_SSL://:9092,SSL://:9093"


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made(tmp_path / "made")
    before = {each: each.read_bytes() for each in folder.iterdir()}
    assert main(["security", "init", "--folder", str(folder)]) == 1
    assert main(["security", "certificate", "admin", "--folder", str(folder)]) == 1
    assert {each: each.read_bytes() for each in folder.iterdir()} == before
    assert "Traceback" not in capsys.readouterr().err


def test_an_init_that_was_killed_leaves_nothing_and_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, target: Path) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "made"
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        assert main(["security", "init", "--folder", str(folder)]) != 0
    assert not folder.exists()
    made(folder)
    assert [*tmp_path.iterdir()] == [folder]


def test_more_certificates_come_from_the_same_authority(tmp_path: Path) -> None:
    folder = made(tmp_path / "made")
    assert main(["security", "certificate", "ann", "--folder", str(folder)]) == 0
    ann, broker = tls(folder / "ann.properties", server=False), tls(folder / "server.properties", server=True)
    handshake(ann.context, broker.context)
    assert certificate_name(ann.certificates[0]) == "CN=ann"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["certificate", "../ann"], "no / in it"),
        (["certificate", "ann", "--days", "0"], "one day at least"),
        (["certificate", "ann"], "ottla security init"),
    ],
)
def test_a_mistake_is_one_line_that_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["security", *words, "--folder", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err
