"""tinySSB: feeds in packets of 120 bytes, for slow and lossy media.

`entry` has the packets of feeds, `goset` and `vectors` those of replication, `bipf` the encoding of both.
`store` keeps feeds on disk, `node` replicates them over datagrams. See docs/tiny.md.
"""
