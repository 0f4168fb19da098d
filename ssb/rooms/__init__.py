"""Rooms: peers that cannot reach each other meet over tunnels through a peer that both can reach.

Rooms 2 (https://ssbc.github.io/rooms2), and room 1 (npm's ssb-room). `room.py` is the room's side,
`visits.py` the side of those who meet, `alias.py` the names that a room gives to them.
"""
