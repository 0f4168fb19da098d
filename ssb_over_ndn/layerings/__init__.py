"""Layerings: ways to carry SSB feeds over NDN."""
