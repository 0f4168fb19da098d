"""Metadata of a run: manifest, settings, paths."""
