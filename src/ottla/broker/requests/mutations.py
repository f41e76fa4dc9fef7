"""How much a request may change in the cluster's metadata (KIP-599)."""

from __future__ import annotations

from ottla.broker.parts import ControllerParts
from ottla.broker.requests.handler import RequestContext
from ottla.security import MutationQuota

__all__ = ["mutation_quota"]


def mutation_quota(context: RequestContext[ControllerParts], *, strict_from: int) -> MutationQuota | None:
    """Return what a request may change; None where that is not limited. From a version on, what is too much is refused."""
    quotas = context.services.quotas
    return None if quotas is None else quotas.mutations(context, strict=context.api_version >= strict_from)
