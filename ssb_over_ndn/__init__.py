"""Secure Scuttlebutt over NDN: classic SSB feeds as NDN feeds, one module a layering.

Item n of a feed is the Data packet `/ssb/logs/<id>/seq=<n>`; the same message is also named by its hash,
`/ssb/sha256/<hash>` (Tarr et al. 2019, section 4.3). `<id>` and `<hash>` are 32 raw bytes.
"""
