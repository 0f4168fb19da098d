"""Wire formats: NDN packet format 0.3, NDNLPv2 and the feed packets of controlled push.

Parsing yields views that keep the received bytes; everything that cannot be parsed raises
:class:`~forwarder.wire.tlv.MalformedPacket` and nothing else.
"""
