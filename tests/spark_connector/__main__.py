"""`python -m tests.spark_connector`: fetch the jars."""

from __future__ import annotations

import sys

from tests import spark_connector

sys.exit(spark_connector.fetch())
