"""Networks of SSB-aware forwarders in virtual time: people who follow, block, move and return.

A seed draws a story: homes of people, routers, links that lose and break, growing logs with statements about
follows, and strangers who forge and flood. `world.play` plays it with the nodes of runs, and checks:

- each log arrives wherever it can: at all nodes whose users' graphs (by the logs that they have) contain its
  author, if such nodes connect them; an application gets each message of those it follows once, in order;
- a message reaches no node whose users' graphs never contained its author; and logs outside the graphs are
  held nowhere in the end;
- nothing is held that its author has not written;
- in the end, no state is left in any PIT.
"""
