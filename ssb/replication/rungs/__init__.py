"""The rungs below epidemic broadcast trees: simpler replication protocols of seed papers 001 and 003."""
