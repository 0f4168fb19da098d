"""The forwarding pipelines, by kind of packet (NFD developer guide, section 4).

tables.py     the state that all pipelines share
interests.py  Interests: admission, caches, loops, PIT, strategy
data.py       Data: feeds, PIT, content store, downstreams
nacks.py      Nacks: from upstreams, and to downstreams
next_hops.py  where an Interest is allowed to go
egress.py     sending, with link-layer headers
pit_size.py   pending state in entries and bytes
"""
