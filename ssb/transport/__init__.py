"""What carries replication over one stream: who is there, in secret, and calls in both directions."""
