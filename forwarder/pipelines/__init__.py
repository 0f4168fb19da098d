"""What a node does with a packet, by its kind (NFD developer guide, section 4).

tables.py     the state that all pipelines share
interests.py  Interests: admission, caches, loops, PIT, strategy
data.py       Data: feeds, PIT, content store, downstreams
nacks.py      Nacks: upstreams that have refused, and downstreams that are refused
next_hops.py  where an Interest is allowed to go
egress.py     what is sent, with its link-layer header
pit_size.py   pending state in entries and bytes
"""
