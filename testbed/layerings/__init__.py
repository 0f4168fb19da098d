"""Layerings: the ways to carry feeds that a scenario can compare, and the nodes that they build."""
