"""Runs in ndnSIM's formats, and comparisons as plain text."""
