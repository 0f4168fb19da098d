"""Captures: the pcapng format, the frames inside, and the recorder that takes them off the network."""
