"""A topology in Mininet: hosts in network namespaces, links by netem or a relay, programs on sockets."""
