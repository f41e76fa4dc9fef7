"""The image's steps, run without a container engine: in an empty folder and an empty environment; then the broker serves as
another user on a read-only root with one data folder (`make image`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.packaging.installed import ROOT, Installed, Started, bootstrap, checked, started
from tests.packaging.test_files import compose_settings, image_settings

USER = 10001
"""As in the Dockerfile."""
BUILD = ROOT / "packaging" / "image" / "build.sh"
READ_ONLY = Path(__file__).parent / "read_only.sh"
NEEDED = ("unshare", "setpriv", "mount", "awk", "gcc")
MISSING = [each for each in NEEDED if not shutil.which(each)]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.getuid() != 0, reason="mounts, and processes of another user, need root"),
    pytest.mark.skipif(bool(MISSING), reason=f"no {MISSING}"),
]
"""Slow: the steps make a compiled wheel, which takes minutes of a processor."""


def empty_environment() -> dict[str, str]:
    """Return what a build in a container has, and how this machine reaches its package index."""
    reaching = {key: value for key, value in os.environ.items() if key.startswith("PIP_") or "proxy" in key.lower()}
    return {**reaching, "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHON": sys.executable, "HOME": "/nonexistent"}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Make a folder that every user may enter, unlike those of pytest."""
    path = Path(tempfile.mkdtemp(prefix="ottla-image-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def image(folder: Path) -> Installed:
    command = [str(BUILD), str(ROOT), str(folder / "ottla")]
    (folder / "empty").mkdir()
    said = checked(command, cwd=folder / "empty", env=empty_environment())
    assert "(compiled)" in said, said
    assert not list((folder / "empty").iterdir())
    return Installed(folder / "ottla")


def closed_home() -> str:
    """Return the folder above the interpreter that other users may not enter; nothing where there is none."""
    above = [each for each in Path(sys.base_prefix).resolve().parents if not each.stat().st_mode & 0o001]
    return str(above[0]) if above else ""


@contextmanager
def contained(image: Installed, data: Path, settings: Mapping[str, str]) -> Iterator[Started]:
    """Run `ottla-serve` as the image does."""
    data.mkdir(exist_ok=True)
    os.chown(data, USER, USER)
    inside = [
        "/bin/sh",
        READ_ONLY,
        data,
        closed_home(),
        Path(sys.base_prefix).resolve(),
        image.folder / "bin" / "ottla-serve",
    ]
    environment = {"PATH": f"{image.folder}/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1", **settings}
    with started(["unshare", "--mount", *map(str, inside)], cwd=data, env=environment) as found:
        yield found


def settings_of(name: str | None, data: Path, changed: Mapping[str, str]) -> dict[str, str]:
    """Return the image's settings, or those of a service of compose.yml, in a folder of the test's."""
    given = image_settings() if name is None else compose_settings(name)
    return {**given, "KAFKA_LOG_DIRS": str(data / "logs"), **changed}


def owner_of(process: subprocess.Popen[str]) -> int:
    """Return the user whose process this is."""
    return os.stat(f"/proc/{process.pid}").st_uid


def test_a_broker_serves_as_another_user_on_a_read_only_root(image: Installed, folder: Path) -> None:
    data = folder / "data"
    changed = {"KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0", "KAFKA_OTTLA_HTTP_LISTENERS": "http://127.0.0.1:0"}
    with contained(image, data, settings_of(None, data, changed)) as broker:
        server = bootstrap(broker.until("ready "))
        assert owner_of(broker.process) == USER
        with pytest.raises(AssertionError, match="Read-only file system"):
            checked(["nsenter", f"--mount=/proc/{broker.process.pid}/ns/mnt", "touch", str(folder / "empty" / "x")])
        image.run(f"topics --bootstrap-server {server} --create --topic greetings", cwd=folder)
        image.run(f"produce --bootstrap-server {server} greetings", cwd=folder, given="hello\n")
        assert image.run(f"consume --bootstrap-server {server} greetings --exit -f %v", cwd=folder) == "hello"
    assert broker.process.returncode == 0, broker.lines
    assert {each.stat().st_uid for each in data.rglob("*")} == {USER}


def test_the_three_brokers_of_compose_are_a_cluster(image: Installed, folder: Path) -> None:
    """Each has an address of loopback's here, where it has a network of its own in containers."""
    names = ("broker-1", "broker-2", "broker-3")
    hosts = {name: f"127.0.11.{number}" for number, name in enumerate(names, 1)}
    with (
        contained(image, folder / "1", at_home(names[0], hosts, folder / "1")) as first,
        contained(image, folder / "2", at_home(names[1], hosts, folder / "2")) as second,
        contained(image, folder / "3", at_home(names[2], hosts, folder / "3")) as third,
    ):
        for broker in (first, second, third):
            broker.until("ready ")
        server = f"{hosts[names[0]]}:9092"
        create = f"topics --bootstrap-server {server} --create --topic copied --replication-factor 3"
        image.run(create, cwd=folder)
        image.run(f"produce --bootstrap-server {server} copied", cwd=folder, given="hello\n")
        there = f"{hosts[names[2]]}:9092"
        assert image.run(f"consume --bootstrap-server {there} copied --exit -f %v", cwd=folder) == "hello"


def at_home(name: str, hosts: Mapping[str, str], data: Path) -> dict[str, str]:
    """Return a service's settings with addresses for the names, and listeners on that of its own."""
    found = settings_of(name, data, {})
    for each, address in hosts.items():
        found = {key: value.replace(each, address) for key, value in found.items()}
    for key in ("KAFKA_LISTENERS", "KAFKA_OTTLA_HTTP_LISTENERS"):
        found[key] = found[key].replace("://:", f"://{hosts[name]}:").replace("0.0.0.0", hosts[name])
    return found
