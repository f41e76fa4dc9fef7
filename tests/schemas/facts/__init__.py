"""What Java's Avro says of schemas, recorded: `python -m tests.schemas.facts` asks it again, by the jars of PySpark."""

from pathlib import Path

__all__ = ["CONFLUENT_FACTS", "FACTS"]

FACTS = Path(__file__).with_name("avro.json")
CONFLUENT_FACTS = Path(__file__).with_name("confluent.json")
"""What Confluent's own Java library, release 7.9.5, says of Avro schemas: `python -m tests.schemas.facts confluent`."""
