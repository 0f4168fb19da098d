"""A peer as a program: its directory, its sockets, and the socket for its user's commands."""
