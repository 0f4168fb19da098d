"""tinySSB as programs for users: their directory, their sockets, and what is typed."""
