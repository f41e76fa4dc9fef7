"""The stores that only joins have, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.streams.engine.interface import EngineSettings, StateBackend
from ottla.streams.engine.joins.buffer import JoinBuffer
from ottla.streams.engine.joins.outer_store import OuterJoinStore
from ottla.streams.engine.joins.subscriptions import SubscriptionStore
from ottla.streams.plan.nodes import StoreSpec

__all__ = ["JOIN_STORES", "JoinStore"]

JoinStore = JoinBuffer | OuterJoinStore | SubscriptionStore

JOIN_STORES: Mapping[str, Callable[[StoreSpec, StateBackend, EngineSettings, dict[str, int]], JoinStore]] = {
    "join_buffer": JoinBuffer,
    "outer_join": OuterJoinStore,
    "subscriptions": SubscriptionStore,
}
"""How a store of a kind is made."""
