"""Layerings: the comparable ways to carry feeds, and their nodes."""
