"""Layerings: each carries SSB feeds over NDN in its own way."""
