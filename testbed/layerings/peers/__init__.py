"""Layerings of Scuttlebutt peers."""
