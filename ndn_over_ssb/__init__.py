"""NDN over SSB: the thought experiment of seed 002, section 4.4, as programs (docs/ndn-over-ssb.md).

`participant` is a peer whose contracts are faces of a forwarder, `side` its Scuttlebutt side. `contract` and
`name_space` read logs. `negotiation` begins and ends contracts; `links` are those in force, each a `line` of
packets in two logs; `packets` enforces rates, terms and `trust`; `routes` computes routes from
logs.
"""
