"""A join of tables by a foreign key (KIP-213): the left row asks the right one's partition, and is answered.

Nine nodes and two internal topics: registration → (topic) → receive → join; the right table → its subscribers; both →
(topic) → the answer meets the left row again → result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ottla.streams.dsl.parameters import Materialized, TableJoined
from ottla.streams.dsl.steps import Place, chosen
from ottla.streams.dsl.tables import SourceTable, Table, materialization
from ottla.streams.functions import Function
from ottla.streams.plan import operations as op
from ottla.streams.plan.graph import Step
from ottla.streams.plan.nodes import RepartitionTopic, StoreSpec
from ottla.streams.plan.topology_builder import TopologyBuilder
from ottla.streams.serdes.choice import SerdeLike
from ottla.streams.serdes.internal import CombinedKeySerde, ResponseSerde, SubscriptionSerde

__all__ = ["ForeignKeyJoin"]

_JOIN = "KTABLE-FK-JOIN-"
_NAMES = {
    "registration_topic": ("-subscription-registration", _JOIN + "SUBSCRIPTION-REGISTRATION-"),
    "registration": ("-subscription-registration-processor", _JOIN + "SUBSCRIPTION-REGISTRATION-"),
    "registration_sink": ("-subscription-registration-sink", "KTABLE-SINK-"),
    "registration_source": ("-subscription-registration-source", "KTABLE-SOURCE-"),
    "subscriptions": ("-subscription-store", _JOIN + "SUBSCRIPTION-STATE-STORE-"),
    "receive": ("-subscription-receive", _JOIN + "SUBSCRIPTION-PROCESSOR-"),
    "respond": ("-subscription-join-foreign", _JOIN + "SUBSCRIPTION-PROCESSOR-"),
    "right_changed": ("-foreign-join-subscription", _JOIN + "SUBSCRIPTION-PROCESSOR-"),
    "response_topic": ("-subscription-response", _JOIN + "SUBSCRIPTION-RESPONSE-"),
    "response_sink": ("-subscription-response-sink", "KTABLE-SINK-"),
    "response_source": ("-subscription-response-source", "KTABLE-SOURCE-"),
    "resolve": ("-subscription-response-resolver", _JOIN + "SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"),
    "result": ("-result", _JOIN + "OUTPUT-"),
}
"""What is named, in Kafka's order: the ending after a given name, and the prefix of a generated one."""


@dataclass(frozen=True, slots=True)
class ForeignKeyJoin:
    """One such join."""

    kind: str
    joiner: Function
    extractor: Function
    given: TableJoined

    def join(
        self,
        left: Place,
        left_table: Table,
        right: Place,
        right_table: Table,
        value_serde: SerdeLike | None,
        materialized: Materialized | str | None,
    ) -> tuple[Place, SourceTable]:
        """Add the join's steps; returns the place and the table of the result."""
        right_table.send_old(force=True)
        left_table.send_old(force=True)
        plan = left.plan
        names = {
            each: plan.names.suffixed_or(self.given.name, suffix=suffix, prefix=prefix)
            for each, (suffix, prefix) in _NAMES.items()
        }
        names["registration_topic"] += "-topic"
        names["response_topic"] += "-topic"
        response = self._questions(left, right, names, right_table.lookup())
        sources = plan.copartition(left.sources, {names["response_source"]})
        kept = materialization(plan, names["result"], materialized, _JOIN + "OUTPUT-")
        value = chosen(names["result"], value_serde) or kept.value or chosen(names["result"], None, self.joiner.returns)
        table = SourceTable(names["result"], replace(kept, key=kept.key or left.key, value=value))
        resolve = plan.add(response, self._resolve(left, left_table.lookup(), names))

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            table.write(topology, parents, op.TableSource(table.stored, table.sends_old))

        result = plan.add(resolve, Step(names["result"], write, versioned=kept.is_versioned))
        place = replace(left, step=result, name=names["result"], key=table.kept.key, value=value, sources=sources)
        return place, table

    def _questions(self, left: Place, right: Place, names: dict[str, str], right_stores: tuple[str, ...]) -> Step:
        """Add everything up to the source of the answers."""
        plan = left.plan
        register = plan.add(left.step, self._register(left, names))
        sink = plan.add(register, self._registration_sink(left, right, names))
        source = plan.add(sink, self._registration_source(left, right, names))
        plan.copartition(right.sources, {names["registration_source"]})
        receive = plan.add(source, self._receive(left, right, names))
        respond = plan.add(receive, self._respond(right, names, right_stores))
        changed = plan.add(right.step, self._right_changed(names))
        answers = plan.add(respond, self._response_sink(left, right, names))
        plan.add(changed, answers)
        return plan.add(answers, self._response_source(left, right, names))

    def _register(self, left: Place, names: dict[str, str]) -> Step:
        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            value = topology.value_serde(left.value, names["registration"])
            made = op.ForeignKeyRegister(self.extractor, self.kind, value)
            topology.add_operation(names["registration"], made, parents)

        return Step(names["registration"], write)

    def _registration_sink(self, left: Place, right: Place, names: dict[str, str]) -> Step:
        name = names["registration_sink"]

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            key = topology.key_serde(right.key, name)
            value = SubscriptionSerde(topology.key_serde(left.key, name))
            topic = names["registration_topic"]
            topology.add_internal_topic(RepartitionTopic(topic, None, key, value))
            partitioner = self.given.other_partitioner
            topology.add_sink(name, topic, *parents, key_serde=key, value_serde=value, partitioner=partitioner)

        return Step(name, write)

    def _registration_source(self, left: Place, right: Place, names: dict[str, str]) -> Step:
        name = names["registration_source"]

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            value = SubscriptionSerde(topology.key_serde(left.key, name))
            key = topology.key_serde(right.key, name)
            topology.add_source(name, names["registration_topic"], key_serde=key, value_serde=value)

        return Step(name, write)

    def _receive(self, left: Place, right: Place, names: dict[str, str]) -> Step:
        name = names["receive"]

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            left_key, right_key = topology.key_serde(left.key, name), topology.key_serde(right.key, name)
            topology.add_operation(name, op.ForeignKeyReceive(names["subscriptions"]), parents)
            topology.add_state_store(
                StoreSpec(
                    names["subscriptions"],
                    "subscriptions",
                    CombinedKeySerde(right_key, left_key),
                    SubscriptionSerde(left_key),
                    cached=False,
                    queryable=False,
                ),
                name,
            )

        return Step(name, write)

    def _respond(self, right: Place, names: dict[str, str], stores: tuple[str, ...]) -> Step:
        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_operation(names["respond"], op.ForeignKeyRespond(right.name), parents, stores)

        return Step(names["respond"], write)

    def _right_changed(self, names: dict[str, str]) -> Step:
        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            made = op.ForeignKeyRightChanged(names["subscriptions"])
            topology.add_operation(names["right_changed"], made, parents, (names["subscriptions"],))

        return Step(names["right_changed"], write)

    def _response_sink(self, left: Place, right: Place, names: dict[str, str]) -> Step:
        name = names["response_sink"]

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            key = topology.key_serde(left.key, name)
            value = ResponseSerde(topology.value_serde(right.value, name))
            topology.add_internal_topic(RepartitionTopic(names["response_topic"], None, key, value))
            partitioner = self.given.partitioner or _to_the_asker
            topology.add_sink(
                name, names["response_topic"], *parents, key_serde=key, value_serde=value, partitioner=partitioner
            )

        return Step(name, write)

    def _response_source(self, left: Place, right: Place, names: dict[str, str]) -> Step:
        name = names["response_source"]

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            value = ResponseSerde(topology.value_serde(right.value, name))
            key = topology.key_serde(left.key, name)
            topology.add_source(name, names["response_topic"], key_serde=key, value_serde=value)

        return Step(name, write)

    def _resolve(self, left: Place, stores: tuple[str, ...], names: dict[str, str]) -> Step:
        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            value = topology.value_serde(left.value, names["resolve"])
            made = op.ForeignKeyResolve(left.name, self.joiner, self.kind, value, names["registration"])
            topology.add_operation(names["resolve"], made, parents, stores)

        return Step(names["resolve"], write)


def _to_the_asker(topic: str, key: object, value: object, partitions: int) -> int | None:
    """Send an answer to the partition that asked, where it is known."""
    found = getattr(value, "primary_partition", None)
    return found if isinstance(found, int) else None
