"""The state of stages: in the task, in chunks inside Spark, in changelogs, and in stores that can be asked."""
