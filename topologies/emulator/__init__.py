"""A topology in virtual time: no kernel, no sockets, no clocks.

virtual_time.py  events in order
network.py       nodes and links
underlay.py      a node's Internet layer: addresses, routes, UDP
streams.py       the streams of a node's programs
tcp/             the TCP that carries them
"""
