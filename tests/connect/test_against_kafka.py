"""Ottla answers as Apache Kafka Connect 4.3.0 does: to recorded questions always, to new ones where the peer is there."""

from __future__ import annotations

import json
import os
import random

import pytest

from tests.connect import cases
from tests.connect.__main__ import FACTS
from tests.connect.described import settled
from tests.connect.ours import answer
from tests.peer.connect import oracle


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_recorded_questions_are_answered_as_kafka_answered_them(family: str) -> None:
    facts = json.loads((FACTS / f"{family}.json").read_text())
    assert len(facts) >= 10
    for asked, theirs in facts:
        ours = json.loads(json.dumps(answer(asked)))
        assert settled(ours) == settled(theirs), json.dumps(asked)


@pytest.mark.peer
def test_new_questions_are_answered_as_kafka_answers_them() -> None:
    seed = random.randrange(1 << 32) if "EXAMPLES" in os.environ else 7
    with oracle() as ask:
        for family, _ in cases.FAMILIES.values():
            for asked in family(random.Random(seed), 60):
                ours = json.loads(json.dumps(answer(asked)))
                assert settled(ours) == settled(ask(asked)), f"seed {seed}: {json.dumps(asked)}"
