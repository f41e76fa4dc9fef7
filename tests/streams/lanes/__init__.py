"""Lanes, hosts and their driver in worlds of their own: virtual time, a cluster in memory, failures drawn from one seed."""
