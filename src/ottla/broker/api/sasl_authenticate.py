"""SaslAuthenticate (KIP-152) where none is due: on a listener where nobody logs in, or after the login.

The one that logs in is answered before the router (`broker/sasl/client_login.py`).
"""

from __future__ import annotations

from ottla.base import ErrorCode, KafkaError
from ottla.broker.requests.handler import AccessParts, Handler, RequestContext
from ottla.security import NEEDS_NOTHING
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

__all__ = ["HANDLER"]


def sasl_authenticate(
    context: RequestContext[AccessParts], request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Refuse it."""
    raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication")


HANDLER = Handler(SaslAuthenticateRequest, versions=(0, 2), needs=NEEDS_NOTHING, handle=sasl_authenticate)
