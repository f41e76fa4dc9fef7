"""Statements and expressions as frozen values; `expression_text` and `statement_text` print them."""
