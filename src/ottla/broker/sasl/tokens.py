"""The delegation tokens of a node: those of the metadata, ready to log in with and to be found by what requests name."""

from __future__ import annotations

from hashlib import pbkdf2_hmac

from ottla.base import ErrorCode, KafkaError
from ottla.config import BrokerConfig, Password, SecurityProtocol
from ottla.metadata import Delta, Image, decide
from ottla.security import DelegationTokens, ScramMechanism, TokenLimits
from ottla.security.sasl import ScramLogin

__all__ = ["Tokens", "check_may_ask"]

KEY_ITERATIONS = 100_000
"""Once at a start: a twentieth of a second."""
ANONYMOUS = "User:ANONYMOUS"


class Tokens:
    """Follows the image; has nothing where `delegation.token.secret.key` is not set."""

    def __init__(self, config: BrokerConfig) -> None:
        settings = config.settings
        secret = settings.delegation_token_secret_key
        assert secret is None or isinstance(secret, Password)
        self._index = None if secret is None or not secret.secret else DelegationTokens(secret.secret)
        self._secret = None if secret is None else secret.secret.encode()
        self.limits = TokenLimits(
            lifetime_ms=settings.delegation_token_max_lifetime_ms, expiry_ms=settings.delegation_token_expiry_time_ms
        )

    @property
    def index(self) -> DelegationTokens:
        """Return the tokens; raises DELEGATION_TOKEN_AUTH_DISABLED where there is no secret to make them with."""
        if self._index is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return self._index

    def key_for(self, purpose: bytes) -> bytes | None:
        """Return a key that is the same on every node and shows nothing of the secret; None where there is no secret.

        What is made with it is public, so guessing the secret from that has to be as slow as from a password.
        """
        if not self._secret:
            return None
        return pbkdf2_hmac("sha512", self._secret, purpose, KEY_ITERATIONS)

    @property
    def is_enabled(self) -> bool:
        """True where a secret is configured."""
        return self._index is not None

    def login(self, mechanism: ScramMechanism, token_id: str, now_ms: int) -> ScramLogin | None:
        """Return what SCRAM needs to let a token's bearer in; None where it is good no longer, or never was."""
        return None if self._index is None else self._index.login(mechanism, token_id, now_ms)

    def image_changed(self, old: Image, image: Image, delta: Delta) -> None:
        """Take in what has changed."""
        before, now = old.delegation_tokens, image.delegation_tokens
        if self._index is None or before is now:
            return
        for token_id in before:
            if token_id not in now:
                self._index.remove(token_id)
        for token_id, kept in now.items():
            if before.get(token_id) is not kept:
                token = decide.token_of(image, token_id)
                assert token is not None
                self._index.put(token)


def check_may_ask(protocol: SecurityProtocol, principal: str, *, by_token: bool) -> None:
    """Raise DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for who has not shown who he is, or has by a token (KIP-48)."""
    is_nobody = protocol is SecurityProtocol.PLAINTEXT or (protocol is SecurityProtocol.SSL and principal == ANONYMOUS)
    if is_nobody or by_token:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
