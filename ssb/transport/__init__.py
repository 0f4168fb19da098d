"""Transport of replication over one stream: handshake, encryption, and calls in both directions."""
