"""Tests of Connect's pure core, most of them against what Apache Kafka Connect 4.3.0 answered to the same questions."""
