"""Topologies: what the network looks like, and the ways to bring one up.

model.py        nodes, links, addresses, routes
generate.py     trees, lines and stars by number
conf.py         Mini-NDN's topology files
pipe.py         what one direction of a link does to its frames, without sockets or clocks
emulated.py     the network in virtual time, inside one process
tcp/            TCP without sockets and clocks, for that network
box.py          the namespaces in which a Mininet run is shut
mininet_net.py  the network by Mininet: namespaces, real sockets, real time
child.py        a helper process: how it is started, spoken to and ended
relay.py        the process that impairs Mininet's links with pipes, where the kernel cannot
namespaces.py   entering a network namespace, and setting up what is in it
ring.py         the memory in which the kernel hands frames to the relay
"""
