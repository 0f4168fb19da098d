"""A Named Data Networking forwarder with controlled push, written sans-IO.

Nothing below this package's daemon opens a socket or reads a clock: packets and the time (integer
nanoseconds) go in as arguments, packets and the next deadline come out.
"""
