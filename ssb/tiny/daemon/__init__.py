"""tinySSB as programs for users: their directories, sockets, and terminals."""
