"""The nodes of a run: how they are built, and what runs on each host over Mininet."""
