"""NDN over SSB: forwarding contracts between Scuttlebutt peers, under which packets go from log to log.

participant.py  a peer whose contracts are faces of a forwarder
side.py         its Scuttlebutt side
negotiation.py  requests, epochs and ends of contracts
contract.py     contracts, as logs have them
links.py        the contracts in force
line.py         packets in two logs
packets.py      rates and terms that packets keep to
allowance.py    a token bucket
name_space.py   who holds which prefix
routes.py       routes from name space and contracts
trust.py        certificates of Data
"""
