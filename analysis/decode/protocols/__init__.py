"""Protocols besides NDN over UDP: what cuts their messages out of TCP, and what a message's bytes are for."""
