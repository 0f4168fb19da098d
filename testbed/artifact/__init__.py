"""Runs as evidence: repetition, comparison, bundles, and agreement of the emulator with Mininet."""
