"""A forwarder as a program of its own: configuration, sockets, signals; and a client for its datasets."""
