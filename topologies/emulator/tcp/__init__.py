"""TCP without sockets and clocks, for the emulator: RFC 9293, on real segments.

segment.py     a segment's bytes: header, options, checksum
states.py      the states of a connection, and their transitions
timeout.py     the retransmission time-out
congestion.py  the congestion window
flight.py      unacknowledged data
sender.py      the sending half: new data, and retransmissions
receiver.py    the receiving half: reassembly, the window offered, acknowledgements
settings.py    per-stack settings and per-connection identifiers
outlet.py      output of a connection's segments
events.py      events for applications
connection.py  both halves and the state machine
stack.py       all connections of a node, its listeners, and its interface to applications
"""
