"""Swarms of whole Scuttlebutt peers in the emulator: `feednet simulate swarms`.

A seed makes a story (`story`): who follows whom, when who writes, what breaks, and who is hostile. `world`
plays it with real handshakes, boxes and calls over emulated TCP, and checks after every event that

- a store holds only what authors have written, each feed without a gap, and of a forked feed one branch,
- what was stored is told once, in order,
- nobody holds what was not wanted, nor gets what its author has blocked it from,
- connections and the state of feeds are bounded,

and in the end that every follower whom honest peers connect with an author has the whole feed, byte for
byte, soon after the last fault; that a fork is proved where branches met; and that then all fall silent.
"""
