"""A Named Data Networking forwarder with controlled push, written sans-IO.

Only forwarder.faces and forwarder.daemon open sockets and read the clock: everywhere else packets and the
time (integer nanoseconds) go in as arguments, packets and the next deadline come out.
"""
