"""Storage of messages and blobs.

`feeds` is the interface of a store of feeds. `admission` has the rules by which a store accepts messages, the
same for both stores: `memory` for simulations, `sqlite` for peers. `blobs` stores blobs, in memory or in a
directory. `lock` admits one writing process at a time. `mark` records the end of a feed beside its key, and
`own_feed` signs nothing where later messages may exist.
"""
