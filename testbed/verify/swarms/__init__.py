"""Swarms of whole Scuttlebutt peers in the emulator: `feednet simulate swarms`.

A seed makes a story (`story`): follows, publications, failures, and hostile peers. `world` plays it with real
handshakes, boxes and calls over emulated TCP, and checks after every event that

- a store holds only what authors have written, each feed without a gap, and of a forked feed one branch,
- stored messages are announced once, in order,
- messages out of order are those that a peer has looked for by their ids,
- contents beside logs are held, shown, dropped and served as their messages say (`holes`),
- users see the true devices of an identity, and no strangers (`users`),
- rooms read nothing, let nobody pass for another, and keep state of those who are there (`rooms`),
- nobody holds unwanted feeds, nor receives feeds from whose authors they are blocked,
- connections and the state of feeds are bounded,

and in the end that every follower connected with an author through honest peers has the whole feed, byte for
byte, soon after the last fault; that a message looked for by its id has come if an honest peer three hops far
has it; that a fork is proved where branches met; that friends in a room are connected once; that all then
fall silent; and that nothing is left of rooms that all have left.
"""
