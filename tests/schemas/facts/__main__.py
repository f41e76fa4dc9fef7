"""Record what Apache Avro's classes say of schemas and of pairs; needs Java, and the jars that PySpark brings."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pyspark

from tests.schemas import avro_maker
from tests.schemas.facts import FACTS

HERE = Path(__file__).parent
RANDOM_TEXTS = 150
RANDOM_PAIRS = 400


def main() -> None:
    """Ask and write."""
    random = Random(20261123)
    texts = (HERE / "avro_texts.txt").read_text().splitlines()
    texts += [json.dumps(avro_maker.schema(random)) for _ in range(RANDOM_TEXTS)]
    pairs = [_pair(random, index) for index in range(RANDOM_PAIRS)]
    jars = Path(pyspark.__file__).parent / "jars"
    command = ["java", "-cp", f"{jars}/*", str(HERE / "AvroFacts.java")]
    asked = json.dumps({"texts": texts, "pairs": pairs}).encode()
    answer: dict[str, Any] = json.loads(subprocess.run(command, input=asked, check=True, stdout=subprocess.PIPE).stdout)
    lines = [json.dumps(each, ensure_ascii=False) for each in (*answer["texts"], *answer["pairs"])]
    FACTS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


BREAKING = (
    ('T1"', 'T9"'),
    ('T2"', 'n.T8"'),
    ('"size": 1', '"size": 4'),
    ('"A"', '"Z"'),
    ('"f0"', '"g0"'),
    ('"null"', '"bytes"'),
)


def _pair(random: Random, index: int) -> tuple[str, str]:
    """Return a reader's and a writer's schema: strangers, or one made of the other, by changes that may break it."""
    first = avro_maker.schema(random, depth=4)
    if index % 4 == 0:
        return json.dumps(avro_maker.schema(random)), json.dumps(first)
    second = json.dumps(avro_maker.changed(random, first, count=0))
    if index % 4 == 3:
        for old, new in random.sample(BREAKING, 2):
            second = second.replace(old, new)
    return (json.dumps(first), second) if index % 2 else (second, json.dumps(first))


if __name__ == "__main__":
    main()
