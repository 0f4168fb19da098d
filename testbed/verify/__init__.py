"""Verification: simulation, fuzzing, soak tests, and kills."""
