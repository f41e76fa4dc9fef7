"""Whatever happens to brokers and whatever is asked for, a partition stays one that can be believed (seeded histories)."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from ottla.base import NodeId
from ottla.metadata import Image, Partition, decide
from ottla.metadata.decide.partition_change import elr_enabled, min_insync_replicas, unclean_allowed
from tests.metadata.clusters import after, cluster, registration, topic, with_topics
from tests.metadata.moves import PREFERRED, UNCLEAN, alter, elect, part, reassign, without_elr

BROKERS = (1, 2, 3, 4)
STEPS = 120


@dataclass
class History:
    """One random story of a topic of one partition; `lines` tell it."""

    rng: Random
    image: Image
    lines: list[str] = field(default_factory=list)
    incarnation: int = 0
    vouched: tuple[int, ...] = ()
    """Whom the leader has just said to have everything."""

    def step(self) -> None:
        before = part(self.image)
        name = self.rng.choice([each for each in dir(self) if each.startswith("do_")])
        self.vouched = ()
        decision, unclean = getattr(self, name)()
        if decision is None:
            return
        self.image = after(self.image, decision)
        now = part(self.image)
        self.lines.append(f"{name[3:]}: {now}")
        self.check(before, now, unclean=unclean or unclean_allowed(self.image, self.image.topics["a"]))

    # -- what may happen; each returns the decision, and whether an unclean election was asked for

    def broker(self) -> int:
        return self.rng.choice(BROKERS)

    def do_fence(self) -> tuple[Any, bool]:
        return decide.fence_broker(self.image, NodeId(self.broker())), False

    def do_unfence(self) -> tuple[Any, bool]:
        return self.beat(self.broker(), shut_down=False), False

    def do_shut_down(self) -> tuple[Any, bool]:
        return self.beat(self.broker(), shut_down=True), False

    def do_come_back(self) -> tuple[Any, bool]:
        broker = self.broker()
        self.incarnation += 1
        epoch = self.image.brokers[broker].epoch if self.rng.random() < 0.5 else -1
        made = registration(broker, incarnation=self.incarnation, epoch=epoch)
        return decide.register_broker(self.image, made, supersede=True), False

    def do_alter(self) -> tuple[Any, bool]:
        now = part(self.image)
        if now.leader < 0:
            return None, False
        others = [each for each in now.replicas if each != now.leader and self.image.brokers[each].active]
        isr = (now.leader, *self.rng.sample(others, self.rng.randint(0, len(others))))
        self.vouched = isr
        return alter(self.image, *isr), False

    def do_elect_preferred(self) -> tuple[Any, bool]:
        return elect(self.image, PREFERRED), False

    def do_elect_unclean(self) -> tuple[Any, bool]:
        return (elect(self.image, UNCLEAN), True) if self.rng.random() < 0.1 else (None, False)

    def do_balance(self) -> tuple[Any, bool]:
        return decide.balance_leaders(self.image), False

    def do_reassign(self) -> tuple[Any, bool]:
        return reassign(self.image, self.rng.sample(BROKERS, self.rng.randint(1, 3))), False

    def do_cancel(self) -> tuple[Any, bool]:
        return reassign(self.image, None), False

    def beat(self, broker: int, *, shut_down: bool) -> Any:
        epoch = self.image.brokers[broker].epoch
        return decide.heartbeat(
            self.image, NodeId(broker), epoch, caught_up=True, want_fence=False, want_shut_down=shut_down
        )

    # -- what always holds

    def check(self, old: Partition, new: Partition, *, unclean: bool) -> None:
        image, elr = self.image, elr_enabled(self.image)
        replicas, isr, eligible = set(new.replicas), set(new.isr), set(new.eligible_leader_replicas)
        assert len(replicas) == len(new.replicas) == len(new.directories) and replicas
        assert len(isr) == len(new.isr) and isr <= replicas and eligible <= replicas and not isr & eligible
        assert {*new.adding_replicas, *new.removing_replicas} <= replicas
        assert not {*new.adding_replicas} & {*new.removing_replicas}, "somebody is both to come and to go"
        assert new.partition_epoch >= old.partition_epoch and new.leader_epoch >= old.leader_epoch
        assert (new.partition_epoch == old.partition_epoch) == (new == old)
        if new.leader != old.leader or not set(old.replicas) <= replicas:
            assert new.leader_epoch > old.leader_epoch
        if new.leader >= 0:
            assert new.leader in isr and image.brokers[new.leader].active
            assert new.last_known_elr == ()
        else:
            assert not any(image.brokers[each].active for each in isr), "somebody in sync could lead"
        if elr:
            assert all(image.brokers[each].active for each in isr)
            if isr:
                assert not eligible or len(isr) < max(min_insync_replicas(image, image.topics["a"]), len(replicas))
            elif new.leader < 0:
                assert not any(image.brokers[each].active for each in eligible), "somebody eligible could lead"
        else:
            assert isr and not eligible
        if new.leader not in (old.leader, -1) and not unclean:
            trusted = {*old.isr, *old.eligible_leader_replicas, *old.last_known_elr, *self.vouched}
            assert new.leader in trusted, f"{new.leader} may lack records"


@pytest.mark.parametrize("seed", range(60))
def test_no_history_makes_a_partition_that_cannot_be_believed(seed: int) -> None:
    rng = Random(seed)
    configs: dict[str, str | None] = {"min.insync.replicas": str(rng.choice((1, 2, 2, 3)))}
    if rng.random() < 0.3:
        configs["unclean.leader.election.enable"] = "true"
    image = with_topics(
        cluster(*BROKERS), topic("a", assignments={0: rng.sample(BROKERS, rng.randint(1, 3))}, configs=configs)
    )
    history = History(rng, image if rng.random() < 0.7 else without_elr(image))
    try:
        for _ in range(STEPS):
            history.step()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(history.lines[-6:])) from error
