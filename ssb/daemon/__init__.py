"""A peer as a program: its directory, its sockets, and the socket by which its user's commands reach it."""
