"""The player of a run: packets and tables over time, as a page."""
