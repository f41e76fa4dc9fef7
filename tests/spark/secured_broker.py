"""A broker with a listener for those who log in over TLS, for tests of whoever reads and writes there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.security.authority import authority, signed
from tests.security.tls_files import key_properties, trust_properties
from tests.server import running_server
from tests.waiting import until

__all__ = ["PASSWORD", "PLAIN", "Secured", "secured_broker"]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORD = "a-secret-of-ann"


@dataclass(frozen=True)
class Secured:
    """The listener for those who log in, and what a client is told."""

    bootstrap: str
    properties: dict[str, str]


@contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    """Run a broker where `ann` may log in."""
    trusted = authority()
    stores = key_properties(folder, signed(trusted, "broker"), "broker") | trust_properties(folder, trusted)
    overrides = [
        "listeners=PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "group.initial.rebalance.delay.ms=0",
        "group.min.session.timeout.ms=1000",
        "sasl.enabled.mechanisms=PLAIN",
        f'listener.name.sasl_ssl.plain.sasl.jaas.config={PLAIN} user_ann="{PASSWORD}";',
        *(f"listener.name.sasl_ssl.{key}={value}" for key, value in stores.items()),
    ]
    with running_server(folder, overrides=overrides) as server:

        def port() -> str | None:
            found = re.search(r"ready SASL_SSL://127\.0\.0\.1:(\d+)", "".join(server.lines))
            return None if found is None else found[1]

        yield Secured(
            f"127.0.0.1:{until(port, lambda: server.lines)}",
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN} username="ann" password="{PASSWORD}";',
                **trust_properties(folder, trusted),
            },
        )
