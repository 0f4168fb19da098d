"""Labs of twenty minutes: docs/labs.md. A folder each, with its text, and what finds the answers."""
