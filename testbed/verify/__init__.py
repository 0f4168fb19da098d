"""Verification: simulation, fuzzing and soak tests."""
