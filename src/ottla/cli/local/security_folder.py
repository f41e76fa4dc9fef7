"""A folder with all that a secured broker and its first administrator need, written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base import ConfigError

if TYPE_CHECKING:
    from datetime import datetime

    from ottla.security import Authority, Issued

__all__ = ["ADMIN", "BROKER", "SecurityFolder"]

AUTHORITY_DAYS = 3650
ADMIN, BROKER = "admin", "broker"
CERTIFICATE, KEY = "authority.pem", "authority.key"
PRIVATE = 0o600
PASSWORDS, CERTIFICATES = 9092, 9093
"""The ports of the two listeners: for those who log in, and for those who have a certificate."""


@dataclass(frozen=True)
class SecurityFolder:
    """Where the files are. Private ones are readable for their owner only."""

    path: Path

    def write_new(self, hosts: Sequence[str], *, now: datetime, days: int) -> None:
        """Make an authority, certificates for a broker at `hosts` and for its administrator, and their properties.

        Raises ConfigError where something is there already: nothing is ever overwritten.
        """
        from ottla.security import Authority

        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise ConfigError("folder", self.path, "one that is empty, or not there yet")
        authority = Authority.made("Ottla trial authority", now=now, days=AUTHORITY_DAYS)
        broker = authority.issue(BROKER, hosts, now=now, days=days)
        admin = authority.issue(ADMIN, (), now=now, days=days)
        self._write({**self._stores(authority, {BROKER: broker, ADMIN: admin}), **self._properties(hosts)})

    def _stores(self, authority: Authority, issued: Mapping[str, Issued]) -> dict[str, str]:
        own = {CERTIFICATE: authority.certificate, KEY: authority.key}
        return own | {f"{name}.pem": each.pem for name, each in issued.items()}

    def _properties(self, hosts: Sequence[str]) -> dict[str, str]:
        return {
            "server.properties": "\n".join(self._server_lines(hosts[0])) + "\n",
            "admin.properties": "\n".join(self._client_lines("SSL", ADMIN)) + "\n",
            "user.properties": "\n".join(self._user_lines()) + "\n",
        }

    def _write(self, files: Mapping[str, str]) -> None:
        """Write into a folder beside it, and rename that: a kill leaves nothing that looks complete."""
        beside = self.path.parent / f".{self.path.name}.new"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True, mode=0o700)
        for name, text in files.items():
            _write_private(beside / name, text)
        from ottla.config import sync_folder

        if self.path.exists():
            self.path.rmdir()
        sync_folder(beside)
        beside.rename(self.path)
        sync_folder(self.path.parent)

    def issue(self, name: str, hosts: Sequence[str], *, now: datetime, days: int) -> list[Path]:
        """Write another key with its certificate, and the properties of a client that has it; return the files.

        Raises ConfigError where there is no authority, or there is such a file.
        """
        from ottla.config import sync_folder
        from ottla.security import Authority

        if "/" in name or name.startswith("."):
            raise ConfigError("name", name, "no / in it, and no . at its beginning: it is a file's name too")
        pem, properties = self.path / f"{name}.pem", self.path / f"{name}.properties"
        for each in (pem, properties):
            if each.exists():
                raise ConfigError("name", name, f"another: there is {each} already")
        try:
            authority = Authority.of((self.path / KEY).read_bytes(), (self.path / CERTIFICATE).read_bytes())
        except FileNotFoundError as error:
            made = f"a folder that `ottla security init` made: there is no {error.filename}"
            raise ConfigError("folder", self.path, made) from None
        issued = authority.issue(name, hosts, now=now, days=days)
        _write_private(pem, issued.pem)
        _write_private(properties, "\n".join(self._client_lines("SSL", name)) + "\n")
        sync_folder(self.path)
        return [pem, properties]

    # -- what the files say

    def _server_lines(self, host: str) -> Iterator[str]:
        here = "localhost" if host == "localhost" else ""
        yield "# One broker that nobody uses without a password or a certificate, and that allows nothing unasked."
        yield f"listeners=SASL_SSL://{here}:{PASSWORDS},SSL://{here}:{CERTIFICATES}"
        yield f"advertised.listeners=SASL_SSL://{_bracketed(host)}:{PASSWORDS},SSL://{_bracketed(host)}:{CERTIFICATES}"
        yield "inter.broker.listener.name=SSL"
        yield f"log.dirs={self.path.absolute() / 'data'}"
        yield ""
        yield from self._store_lines(BROKER)
        yield "ssl.client.auth=required"
        yield "# CN=ann stands for User:ann"
        yield "ssl.principal.mapping.rules=RULE:^CN=([^,]+)$/$1/,DEFAULT"
        yield ""
        yield "sasl.enabled.mechanisms=SCRAM-SHA-512"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        yield f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={login}"
        yield ""
        yield "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        yield f"super.users=User:{ADMIN};User:{BROKER}"

    def _client_lines(self, protocol: str, name: str) -> Iterator[str]:
        yield f"security.protocol={protocol}"
        yield from self._store_lines(name)

    def _user_lines(self) -> Iterator[str]:
        yield "# For somebody with a password: copy it, and put in the name and the password."
        yield "security.protocol=SASL_SSL"
        yield from self._trust_lines()
        yield "sasl.mechanism=SCRAM-SHA-512"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        yield f'sasl.jaas.config={login} username="NAME" password="PASSWORD";'

    def _store_lines(self, name: str) -> Iterator[str]:
        yield "ssl.keystore.type=PEM"
        yield f"ssl.keystore.location={self.path.absolute() / name}.pem"
        yield from self._trust_lines()

    def _trust_lines(self) -> Iterator[str]:
        yield "ssl.truststore.type=PEM"
        yield f"ssl.truststore.location={self.path.absolute() / CERTIFICATE}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner may read, and have the disk keep it; raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
