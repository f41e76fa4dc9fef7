"""Random histories on real databases: what a capture tells, replayed by key, is what the server has."""
