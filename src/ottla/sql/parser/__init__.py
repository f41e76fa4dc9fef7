"""Recursive descent over the tokens of a text, with ksqlDB's grammar and its words for errors."""
