"""Groups and transactions: the shards of the two internal topics that this broker leads, and what they carry out."""
