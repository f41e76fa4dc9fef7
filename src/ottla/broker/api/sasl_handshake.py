"""SaslHandshake (KIP-43) where none is due: on a listener where nobody logs in, or with nothing to renew (KIP-368).

The one that begins a login is answered before the router (`broker/sasl/client_login.py`).
"""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.broker.requests.handler import AccessParts, Handler, RequestContext
from ottla.security import NEEDS_NOTHING
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

__all__ = ["HANDLER"]


def sasl_handshake(context: RequestContext[AccessParts], request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse it."""
    raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)


HANDLER = Handler(SaslHandshakeRequest, versions=(0, 1), needs=NEEDS_NOTHING, handle=sasl_handshake)
