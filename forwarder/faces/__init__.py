"""Sockets: the thin I/O shell around a Host."""
