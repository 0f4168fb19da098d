"""Deliberate bugs that the tests must catch: of each simulated family, of TCP, of bounds."""
