"""Quotas of somebody's own making (KIP-257): a class says who shares a limit, and what the limit is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ottla.security.quotas import CLIENT_QUOTAS, METERS_MAX, QUOTA_KINDS, Entity, Limit, QuotaKind

__all__ = ["CalledBack", "QuotaCallback"]

LOWEST = 0.001
"""The smallest limit: next to nothing."""
_KAFKAS_TAGS = {"user", "client-id"}

Tags = tuple[tuple[str, str], ...]


class QuotaCallback(Protocol):
    """What the class does, all of it on the event loop; kinds are `PRODUCE`, `FETCH`, `REQUEST`, `CONTROLLER_MUTATION`."""

    def quota_metric_tags(self, quota_type: str, principal: str, client_id: str) -> Mapping[str, str]:
        """Return by what this client's use is counted: clients with the same tags share a limit."""
        ...

    def quota_limit(self, quota_type: str, metric_tags: Mapping[str, str]) -> float | None:
        """Return the limit per second for these tags, None for none; it holds until something changes."""
        ...

    def update_quota(self, quota_type: str, entity: Mapping[str, str | None], value: float) -> None:
        """Hear that a quota was set in the cluster; None in the entity stands for the default of its type."""
        ...

    def remove_quota(self, quota_type: str, entity: Mapping[str, str | None]) -> None:
        """Hear that a quota was removed."""
        ...

    def quota_reset_required(self, quota_type: str) -> bool:
        """Return whether limits have changed since this was asked last; it is asked with every request."""
        ...

    def update_cluster_metadata(self, cluster: Any) -> bool:
        """Hear of new topics, leaders or brokers; returns whether limits change by it."""
        ...


class CalledBack:
    """Limits as a callback gives them, each kept until the callback, the cluster's quotas or its metadata change them.

    What the callback raises must stop no request: then nobody is limited by it, and `failed` is told.
    """

    def __init__(self, callback: QuotaCallback, failed: Callable[[str, Exception], None]) -> None:
        self._callback = callback
        self._failed = failed
        self._told: dict[tuple[QuotaKind, Entity], float] = {}
        self._bounds: dict[QuotaKind, dict[Tags, float | None]] = {kind: {} for kind in CLIENT_QUOTAS}

    def limit(self, kind: QuotaKind, user: str, client_id: str) -> Limit | None:
        """Return a client's limit, and by what its use is counted."""
        try:
            if self._callback.quota_reset_required(kind.name):
                self._bounds[kind].clear()
            tags = self._callback.quota_metric_tags(kind.name, f"User:{user}", client_id)
            key = tuple(sorted((str(name), str(value)) for name, value in tags.items()))
            bound = self._bound(kind, key)
        except Exception as error:  # another's code: see above
            self._failed("a request was not limited", error)
            return None
        return None if bound is None else Limit(bound, *_counted_by(key))

    def _bound(self, kind: QuotaKind, tags: Tags) -> float | None:
        known = self._bounds[kind]
        if tags in known:
            return known[tags]
        found = self._callback.quota_limit(kind.name, dict(tags))
        bound = None if found is None else float(found)
        if bound is not None and not bound >= 0:
            raise ValueError(f"{kind.name} has the limit {bound}")
        if len(known) >= METERS_MAX:
            known.clear()
        known[tags] = None if bound is None else max(bound, LOWEST)
        return known[tags]

    def configure(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Tell the callback what has changed of the quotas that are set in the cluster, but for those of addresses."""
        told = {
            (QUOTA_KINDS[name], entity): value
            for entity, values in quotas.items()
            for name, value in values.items()
            if QUOTA_KINDS.get(name) in CLIENT_QUOTAS
        }
        for kind, entity in self._told.keys() - told.keys():
            self._tell(self._callback.remove_quota, kind.name, dict(entity))
        for (kind, entity), value in told.items():
            if self._told.get((kind, entity)) != value:
                self._tell(self._callback.update_quota, kind.name, dict(entity), value)
        self._told = told
        self._forget()

    def cluster_changed(self, cluster: Any) -> None:
        """Tell the callback of other topics, leaders or brokers."""
        if self._tell(self._callback.update_cluster_metadata, cluster):
            self._forget()

    def _tell(self, what: Callable[..., Any], *values: Any) -> Any:
        try:
            return what(*values)
        except Exception as error:  # another's code: see above
            self._failed("it was not told of a change", error)
            return None

    def _forget(self) -> None:
        for each in self._bounds.values():
            each.clear()


def _counted_by(tags: Tags) -> tuple[str, str]:
    """Return tags as the user and client id that metrics show: theirs, or all of them as one text."""
    found = dict(tags)
    if found.keys() <= _KAFKAS_TAGS:
        return found.get("user", ""), found.get("client-id", "")
    return json.dumps(found), ""
