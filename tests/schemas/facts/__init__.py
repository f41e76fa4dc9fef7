"""What Java's Avro says of schemas, recorded: `python -m tests.schemas.facts` asks it again, by the jars of PySpark."""

from pathlib import Path

__all__ = ["FACTS"]

FACTS = Path(__file__).with_name("avro.json")
