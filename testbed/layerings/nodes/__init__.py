"""Nodes of a run: what a layering builds them from, and programs of others."""
