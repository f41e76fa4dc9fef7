"""Exactly once under kills: a real application, whose driver, workers, executors and broker are killed, and who counts."""
