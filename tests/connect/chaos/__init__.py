"""Connect under kills: real workers with tasks on Spark, whose every part is killed, and every record accounted for."""
