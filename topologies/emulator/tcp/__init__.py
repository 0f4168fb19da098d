"""TCP without sockets and clocks, for the emulator: RFC 9293, with real segments in and real segments out.

segment.py     a segment's bytes: header, options, checksum
states.py      the states of a connection, and what moves it from one to the next
timeout.py     the retransmission time-out
congestion.py  the congestion window
flight.py      what has been sent and not yet acknowledged
sender.py      the sending half: what goes next, and what goes again
receiver.py    the receiving half: putting in order, the window offered, when to acknowledge
settings.py    what a stack's connections have in common, and what tells them apart
outlet.py      where a connection's segments go out
events.py      what applications are told
connection.py  both halves and the state machine
stack.py       all connections of a node, its listeners, and what it tells applications
"""
