"""The rungs below epidemic broadcast trees, the simpler protocols for feeds of seed papers 001 and 003."""
