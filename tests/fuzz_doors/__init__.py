"""What anybody may send to SQL servers and registries, made by a seed: read or refused, for work that grows with it."""
