"""Kerberos tickets with which a client logs in by GSSAPI: of a keytab, or of a cache that `kinit` has filled.

What is asked of a KDC goes to a thread. With a keytab the library asks for a new ticket at the first login after half
of the old one's lifetime; a cache is read again for each login, and whoever fills it renews it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from ottla.base import ErrorCode, KafkaError
from ottla.config import system_properties
from ottla.security import KerberosEntry
from ottla.security.sasl import ClientExchange, GssapiClient, GssError, GssUnreachableError

__all__ = ["Tickets"]

TICKET_SECONDS_MAX = 60.0
"""How long a login waits for a ticket; the library itself may try every KDC and name server in turn, for minutes."""
SERVICE, MECHANISM = "sasl.kerberos.service.name", "sasl.mechanism"


class Tickets:
    """The one owner of a client's tickets; `options` are those of its JAAS entry."""

    def __init__(self, given: Mapping[str, str], options: Mapping[str, str]) -> None:
        """Raises ConfigError where something cannot be honoured."""
        from ottla.security.sasl.gss import Initiator, check_installed  # it imports Kerberos' library

        entry = KerberosEntry.of(options, given.get(SERVICE))
        check_installed(MECHANISM, system_properties(os.environ))
        self._initiator = Initiator(entry)

    async def begin(self, host: str) -> ClientExchange:
        """Begin a login to the broker on a host; raises KafkaError where there is no ticket."""
        try:
            async with asyncio.timeout(TICKET_SECONDS_MAX):
                context, first = await asyncio.to_thread(self._initiator.initiate, host)
        except TimeoutError as error:
            text = f"Kerberos: no ticket for {host} within {TICKET_SECONDS_MAX:g} s: a KDC or a name server is silent"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text) from error
        except GssUnreachableError as error:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"Kerberos: {error}") from error
        except GssError as error:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"Kerberos: {error}") from error
        return GssapiClient(context, first)
