"""A topology by Mininet: hosts in network namespaces, real sockets, real time.

sandbox.py     the namespaces that confine a Mininet run
namespaces.py  entering and configuring network namespaces
host.py        a host: a namespace, and a shell on request
network.py     hosts and links
relay.py       the process that impairs links with pipes, where the kernel cannot
ring.py        shared memory for frames from the kernel to the relay
child.py       a helper process: start, commands, end
"""
