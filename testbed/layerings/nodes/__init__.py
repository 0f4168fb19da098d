"""Nodes of a run: the inputs of a layering, and third-party programs."""
