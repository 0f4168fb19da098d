"""A forwarder as a program of its own: configuration, sockets, signals."""
