"""tinySSB: feeds in packets of 120 bytes, for media that are slow and lose much.

`entry` has the packets of feeds, `goset` and `vectors` what is said about them, `bipf` the encoding of both.
`store` keeps feeds on disk, `node` replicates them over datagrams. docs/tiny.md describes it all.
"""
