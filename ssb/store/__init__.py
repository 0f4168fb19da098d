"""Storage of messages and blobs.

`feeds` is the contract of a store of feeds. `admission` has the rules by which a store takes messages,
the same for both stores: `memory` for simulations, `sqlite` for peers. `blobs` keeps blobs, in memory or
in a directory. `lock` lets one process write at a time. `mark` keeps how far a feed is beside its key, and
`own_feed` signs nothing where later messages may exist.
"""
