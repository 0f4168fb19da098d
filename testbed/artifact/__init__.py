"""Runs as evidence: repeated and compared, packed into one file, and the emulator held against Mininet."""
