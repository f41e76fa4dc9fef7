"""The plan as a value: operations in a graph, named, described, optimised, and cut into stages."""
