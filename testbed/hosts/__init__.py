"""The nodes of a run: their construction, and their processes over Mininet."""
