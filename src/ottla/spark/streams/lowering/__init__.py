"""A stage of a plan as a streaming DataFrame: where what runs, in Spark, in Arrow or in Python."""
