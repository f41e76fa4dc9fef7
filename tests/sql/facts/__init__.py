"""What Java itself answers, recorded: `python -m tests.sql.facts` asks it again, with any JDK of 17 or later.

Each fact is a question, as a list of texts beginning with its kind, and Java's answer, null where Java refused. ksqlDB's
functions are Java's own: java.time's formatter, java.net.URI, Double.toString, Math, HashMap's order.
"""

from pathlib import Path

__all__ = ["FACTS"]

FACTS = Path(__file__).with_name("java.json")
