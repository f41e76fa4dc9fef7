"""Every private name of PySpark, Py4J and Spark's JVM that Ottla uses, each behind a function that says why.

What Spark documents stays as it is between its minor versions; what is here may change in any of them. So no other file
touches such names (tests/test_architecture.py), each function here has a test of its own on a real session
(tests/spark/test_private_api.py), and pyproject.toml admits the versions of PySpark that those tests ran with.
"""
