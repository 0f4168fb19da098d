"""Where a peer keeps what it replicates: feeds and blobs."""
