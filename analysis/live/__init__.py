"""Captures that still grow: their counts, PITs and feeds so far."""
