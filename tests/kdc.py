"""A real KDC: Debian's `krb5kdc` over a database in a folder, on a loopback port, and no service of the system."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port
from tests.processes import end
from tests.waiting import until

__all__ = ["REALM", "Kdc", "missing", "running_kdc"]

REALM = "OTTLA.TEST"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
SBIN = "/usr/sbin:/sbin"

CLIENT_CONF = """
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  forwardable = true
  clockskew = {clockskew}
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  localhost = {realm}
"""
KDC_CONF = """
[kdcdefaults]
  kdc_listen = 127.0.0.1:{port}
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    acl_file = {folder}/kadm5.acl
    max_life = 10h 0m 0s
    max_renewable_life = 7d 0h 0m 0s
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}
[logging]
  kdc = FILE:{folder}/kdc.log
  admin_server = FILE:{folder}/kadmin.log
"""


def missing() -> str | None:
    """Return one line that says what a KDC lacks here, or None."""
    lacking = [each for each in PROGRAMS if _program(each) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed: apt-get install krb5-kdc krb5-admin-server krb5-user"
    return None


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}")


class Kdc:
    """A realm's KDC, and what its administrator does."""

    def __init__(self, folder: Path, port: int, realm: str = REALM) -> None:
        self.folder = folder
        self.port = port
        self.realm = realm
        self.conf = folder / "krb5.conf"
        self.environment = {
            "KRB5_CONFIG": str(self.conf),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder}/nobodys.ccache",
            "KRB5RCACHEDIR": str(folder),
        }

    def run(self, program: str, *args: str, typed: str = "") -> str:
        """Run one of Kerberos' programs against this realm, and return what it says."""
        found = _program(program)
        assert found is not None
        done = subprocess.run(
            [found, *args], env=os.environ | self.environment, input=typed, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def create(self) -> None:
        """Make the realm's database."""
        self.folder.mkdir(parents=True, exist_ok=True)
        values = {"realm": self.realm, "port": self.port, "folder": self.folder}
        self.write_conf()
        (self.folder / "kdc.conf").write_text(KDC_CONF.format(**values))
        self.run("kdb5_util", "create", "-s", "-W", "-r", self.realm, "-P", "the master's")

    def write_conf(self, name: str = "krb5.conf", *, port: int | None = None, clockskew: int = 300) -> Path:
        """Write a configuration of Kerberos' programs and libraries for this realm, and return where."""
        path = self.folder / name
        path.write_text(CLIENT_CONF.format(realm=self.realm, port=port or self.port, clockskew=clockskew))
        return path

    def keytab(self, *principals: str, life: str = "") -> Path:
        """Add principals whose keys nobody knows, and return a keytab that holds them; `life` bounds their tickets."""
        path = self.folder / (principals[0].replace("/", "-") + ".keytab")
        for each in principals:
            bound = f"-maxlife {life}" if life else ""
            self.run("kadmin.local", "-r", self.realm, "-q", f"addprinc -randkey {bound} {each}")
            self.run("kadmin.local", "-r", self.realm, "-q", f"ktadd -k {path} {each}")
        return path

    def ticket(self, principal: str, keytab: Path, *args: str) -> Path:
        """Have a ticket in a cache of its own, as `kinit` leaves it, and return the cache."""
        path = self.folder / f"{principal.replace('/', '-')}.ccache"
        self.run("kinit", "-c", str(path), "-k", "-t", str(keytab), *args, principal)
        return path

    def issued(self, principal: str) -> int:
        """Return how many tickets the KDC has given a principal to ask for others with."""
        lines = (self.folder / "kdc.log").read_text().splitlines()
        return sum("AS_REQ" in line and ": ISSUE:" in line and f" {principal} for" in line for line in lines)


@contextmanager
def running_kdc(folder: Path, realm: str = REALM) -> Iterator[Kdc]:
    """Run a KDC of a new realm."""
    kdc = Kdc(folder, free_port(), realm)
    kdc.create()
    program = _program("krb5kdc")
    assert program is not None
    with (folder / "kdc.out").open("wb") as out:
        process = subprocess.Popen(
            [program, "-n", "-r", realm], env=os.environ | kdc.environment, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: _answers(kdc.port))
        yield kdc
    finally:
        end(process, 10)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
