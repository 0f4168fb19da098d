"""The replication ladder, climbed by swarms of peers that speak the real protocols without losses."""
