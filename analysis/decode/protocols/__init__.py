"""Protocols that captures are read for: one module each, and their registry."""
