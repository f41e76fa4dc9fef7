"""How a task's clients are protected, and how what protects them gets there: not by way of Spark.

An option of Spark's stands in plans, in the user interface and in the driver's talk with the JVM. So a password may be given
as `${env:NAME}`, `${file:PATH:KEY}` or `${dir:FOLDER:NAME}`, as Kafka's config providers have it, and is looked up where a
client is made: on the executor. `KeptAside` does that for those who were given the password itself.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ottla.base import ConfigError
from ottla.client import ClientSecurity, SecuredNetwork
from ottla.config import ProviderError, providers_of, resolved

__all__ = ["SECRET_KEYS", "KeptAside", "looked_up", "network_of"]

Properties = tuple[tuple[str, str], ...]
SECRET_KEYS = frozenset(
    {
        *("sasl.jaas.config", "ssl.key.password", "ssl.keystore.key"),
        *("ssl.keystore.password", "ssl.truststore.password"),
    }
)
"""What nobody is to see of a client's properties."""
PLACE = "${"
PROVIDERS = {"env": "EnvVarConfigProvider", "file": "FileConfigProvider", "dir": "DirectoryConfigProvider"}


def network_of(properties: Properties) -> SecuredNetwork | None:
    """Return the network that a client with these properties connects on, None for connections in clear.

    Raises ConfigError for what cannot be honoured or found here. Each client has a network of its own.
    """
    security = _security(properties)
    return None if security.protocol == "PLAINTEXT" else SecuredNetwork(security)


@cache
def _security(properties: Properties) -> ClientSecurity:
    """Return what is made once in a process: stores are read, and keys unlocked."""
    return ClientSecurity.of(looked_up(dict(properties)))


def looked_up(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties with what their placeholders stand for on this machine; raises ConfigError."""
    if not any(PLACE in each for each in properties.values()):
        return dict(properties)
    settings = {"config.providers": ",".join(PROVIDERS)}
    package = "org.apache.kafka.common.config.provider"
    settings |= {f"config.providers.{name}.class": f"{package}.{kind}" for name, kind in PROVIDERS.items()}
    try:
        found = resolved(properties, providers_of(settings).lookup)
    except ProviderError as error:
        raise ConfigError("${…}", "", "", f"what protects the connections is not to be had here: {error}") from error
    for key, value in found.items():
        if value == properties[key] and PLACE in value:
            raise ConfigError(key, value, "", f"{key}: {value} is not to be had on this machine")
    return {key: value for key, value in found.items() if value is not None}


class KeptAside:
    """Secrets in a folder of this machine that its owner alone may read, for as long as this lives."""

    def __init__(self, properties: Mapping[str, str], *, local: bool) -> None:
        """Write what is secret of a client's properties, where it is the secret itself and no placeholder.

        Raises ConfigError where executors run on other machines, which do not see the folder: `local` is False.
        """
        self.properties = dict(properties)
        """The properties, with placeholders for what was written."""
        secrets = {
            key: value for key, value in properties.items() if key in SECRET_KEYS and not value.startswith(PLACE)
        }
        if not secrets:
            return
        if not local:
            key = next(iter(secrets))
            text = "on a Spark cluster it is given as ${env:NAME}, ${file:PATH:KEY} or ${dir:FOLDER:NAME}, which each "
            raise ConfigError(key, "[hidden]", "", f"{key}: {text}executor looks up on its own machine")
        folder = tempfile.mkdtemp(prefix="ottla-client-")  # 0700
        self.close = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        for key, value in secrets.items():
            path = Path(folder, key)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(value)
            self.properties[key] = f"${{dir:{folder}:{key}}}"
