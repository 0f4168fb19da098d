"""A topology by Mininet: hosts in network namespaces, real sockets, real time.

sandbox.py     the namespaces in which a Mininet run is shut
namespaces.py  entering and configuring network namespaces
host.py        a host: a namespace, and a shell when one is asked for
network.py     hosts and links
relay.py       the process that impairs links with pipes, where the kernel cannot
ring.py        the memory in which the kernel hands frames to the relay
child.py       a helper process: start, commands, end
"""
