"""What protects a client's connections, in the words of librdkafka, the C library under `confluent_kafka`.

It reads PEM alone, so stores are opened here, and it knows nothing of JAAS. What it cannot do is a ConfigError.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from ottla.base import ConfigError
from ottla.client.access_tokens import AccessTokens
from ottla.client.security import JAAS, KAFKAS_MECHANISM, MECHANISM, PROTOCOL, ClientSecurity, security_of
from ottla.security import TlsSettings, client_entry, openssl_cipher, pem_stores

__all__ = ["librdkafka_security"]

log = logging.getLogger(__name__)

RETRY_S = 10.0
"""After how long a token is asked for again that did not come; the library asks when 80 % of it are over."""


def librdkafka_security(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for these properties of Kafka's; raises ConfigError for what cannot be honoured, and KafkaError
    where no access token comes.

    What begins with none of `security.`, `ssl.` and `sasl.` is left to the caller.
    """
    given = {key: str(value) for key, value in security_of(properties).items()}
    _refuse_kerberos(given)
    protocol = ClientSecurity.of(given).protocol  # what is wrong with the properties is said in our words
    found: dict[str, Any] = {} if protocol == "PLAINTEXT" else {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        found |= _tls(given)
    if protocol.startswith("SASL"):
        found |= _login(given)
    return found


def _refuse_kerberos(given: Mapping[str, str]) -> None:
    logs_in = given.get(PROTOCOL, "").strip().upper().startswith("SASL")
    if logs_in and (given.get(MECHANISM) or KAFKAS_MECHANISM) == "GSSAPI":
        text = (
            "librdkafka, which console producers, consumers in a group and Connect's sinks go by, knows no Kerberos as its "
            "wheel brings it: name another mechanism, of a listener that has one"
        )
        raise ConfigError(MECHANISM, "GSSAPI", text)


def _tls(given: Mapping[str, str]) -> dict[str, str]:
    settings = TlsSettings.of(dict(given))
    if settings.versions != TlsSettings.of({}).versions:
        versions = given.get("ssl.enabled.protocols") or given.get("ssl.protocol")
        raise ConfigError("ssl.enabled.protocols", versions, "librdkafka cannot be held to one version of TLS")
    stores = pem_stores(settings)
    found = {
        "ssl.ca.pem": stores.trusted,
        "ssl.key.pem": stores.key,
        "ssl.certificate.pem": stores.chain,
        "ssl.endpoint.identification.algorithm": "https" if settings.checks_host else "none",
        "ssl.cipher.suites": ":".join(map(openssl_cipher, settings.ciphers)),
    }
    return {key: value for key, value in found.items() if value}


def _login(given: Mapping[str, str]) -> dict[str, Any]:
    mechanism = given[MECHANISM]
    options = client_entry(given.get(JAAS), None, mechanism).options
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanism": mechanism, "oauth_cb": _token_giver(AccessTokens(given, options))}
    if options.get("tokenauth", "").lower() == "true":
        text = "librdkafka cannot log in with a delegation token: its SCRAM does not send the extension tokenauth"
        raise ConfigError(JAAS, "[hidden]", "", f"{JAAS}: {text}")
    return {"sasl.mechanism": mechanism, "sasl.username": options["username"], "sasl.password": options["password"]}


def _token_giver(tokens: AccessTokens) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    """Return what librdkafka calls, when its client is polled, for a first token and again before one ends.

    The first is fetched now, so that what is wrong is said here; raises KafkaError. Later the callback must not raise: an
    exception would meet the library's own call for the same error. It shows the old token again, and the broker judges it.
    """
    first: list[tuple[str, float]] = [tokens.fresh()]
    last = first[0][0]

    def give(_: str) -> tuple[str, float, str, dict[str, str]]:
        nonlocal last
        try:
            last, ends_s = first.pop() if first else tokens.fresh()
        except Exception as error:  # see above; it is said, and no login is let in by it
            log.warning("There is no new access token, and the one before is shown again: %s", error)
            ends_s = time.time() + RETRY_S
        return last, ends_s, "", tokens.extensions

    return give
