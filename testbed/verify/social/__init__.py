"""Networks of SSB-aware forwarders in virtual time: people who follow, block, move and come back.

A story is drawn from a seed: homes of people, routers, links that lose and break, logs that grow and say who
follows whom, and strangers who forge and flood. `world.play` plays it with the nodes of runs, and checks:

- each log arrives wherever it can: at all nodes on whose users' graphs it is, by the logs that they have, if
  such nodes join them with the author's; an application gets each message of those it follows once, in order;
- a message of an author reaches no node on whose users' graphs the author has never been; and what has left
  the graphs is held nowhere in the end;
- nothing is held that its author has not written;
- when all is over, no state is left in any PIT.
"""
