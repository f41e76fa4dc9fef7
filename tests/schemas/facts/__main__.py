"""Record what Apache Avro's classes say of schemas and of pairs; needs Java, and the jars that PySpark brings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyspark

from tests.peer import registries
from tests.schemas import avro_maker
from tests.schemas.facts import CONFLUENT_FACTS, FACTS

HERE = Path(__file__).parent
RANDOM_TEXTS = 150
RANDOM_PAIRS = 400
CONFLUENT_TEXTS = 100
CONFLUENT_PAIRS = 100


def main() -> None:
    """Ask and write."""
    if sys.argv[1:] == ["confluent"]:
        write_confluents()
    else:
        write_avros()


def write_avros() -> None:
    """Ask Apache Avro."""
    random = Random(20261123)
    texts = (HERE / "avro_texts.txt").read_text().splitlines()
    texts += [json.dumps(avro_maker.schema(random)) for _ in range(RANDOM_TEXTS)]
    pairs = [_pair(random, index) for index in range(RANDOM_PAIRS)]
    jars = Path(pyspark.__file__).parent / "jars"
    command = ["java", "-cp", f"{jars}/*", str(HERE / "AvroFacts.java")]
    asked = json.dumps({"texts": texts, "pairs": pairs}).encode()
    answer: dict[str, Any] = json.loads(subprocess.run(command, input=asked, check=True, stdout=subprocess.PIPE).stdout)
    _write(FACTS, [*answer["texts"], *answer["pairs"]])


def _write(path: Path, facts: list[Any]) -> None:
    path.write_text("[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in facts) + "\n]\n")


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


# What Confluent's library says: its texts, its normal forms, and what it tells schemas apart by


MONEY = '{"type":"record","name":"Money","namespace":"shop","fields":[{"name":"cents","type":"long"}]}'
COLOUR = '{"type":"enum","name":"Colour","symbols":["RED"],"zz":1,"aa":2}'
REFERRING = (
    '{"type":"record","name":"O","fields":[{"name":"p","type":"shop.Money"},{"name":"c","type":"Colour"}]}',
    '{"type":"record","name":"O","namespace":"shop","fields":[{"name":"p","type":"Money"},{"name":"c","type":"shop.Money"}]}',
    '"shop.Money"',
    '["shop.Money","Colour"]',
    '{"type":"array","items":"Colour"}',
)


def write_confluents() -> None:
    """Ask Confluent's library."""
    random = Random(20261124)
    texts = (HERE / "avro_texts.txt").read_text().splitlines() + (HERE / "avro_defaults.txt").read_text().splitlines()
    texts += [json.dumps(avro_maker.schema(random)) for _ in range(CONFLUENT_TEXTS)]
    schemas = [{"text": each, **_more(random)} for each in texts]
    names = [{"name": "shop.Money", "subject": "z", "version": 3}, {"name": "Colour", "subject": "c", "version": 1}]
    resolved = {"shop.Money": MONEY, "Colour": COLOUR}
    schemas += [{"text": each, "references": names, "resolved": resolved} for each in REFERRING]
    pairs = [_pair(random, index) for index in range(CONFLUENT_PAIRS)]
    command = registries.java(registries.CONFLUENT_7_9, HERE / "ConfluentFacts.java")
    asked = json.dumps({"schemas": schemas, "pairs": pairs}).encode()
    answer: dict[str, Any] = json.loads(subprocess.run(command, input=asked, check=True, stdout=subprocess.PIPE).stdout)
    _write(CONFLUENT_FACTS, [*answer["schemas"], *answer["pairs"]])


def _more(random: Random) -> dict[str, Any]:
    """Return metadata, rules, both or neither."""
    found: dict[str, Any] = {}
    if random.random() < 0.3:
        tags = {key: random.sample(["PII", "X", "a"], 2) for key in random.sample("abc", 2)}
        properties = {"owner": "ä", **{key: random.choice(["1", "zz"]) for key in random.sample("xyz", 2)}}
        found["metadata"] = {"tags": tags, "properties": properties, "sensitive": random.sample(["x", "ssn"], 1)}
    if random.random() < 0.3:
        families = {"domainRules": ("READ", "WRITE", "WRITEREAD"), "migrationRules": ("UPGRADE", "DOWNGRADE", "UPDOWN")}
        found["ruleSet"] = {
            family: [_rule(random, f"{family}-{index}", random.choice(modes)) for index in range(random.randint(1, 2))]
            for family, modes in families.items()
        }
    return found


def _rule(random: Random, name: str, mode: str) -> dict[str, Any]:
    rule = {"name": name, "kind": random.choice(["TRANSFORM", "CONDITION"]), "mode": mode, "type": "CEL"}
    more = {
        "doc": "said: ü",
        "tags": ["b", "a"],
        "params": {"k": "v", "a": "2"},
        "expr": "x > 1",
        "onSuccess": "NONE,ERROR",
        "onFailure": "DLQ",
        "disabled": True,
    }
    return {**rule, **{key: value for key, value in more.items() if random.random() < 0.5}}


if __name__ == "__main__":
    main()
