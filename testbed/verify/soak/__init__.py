"""Soak tests: long traffic without growth.

`virtual` runs a day of mixed traffic through a small network of nodes in the emulator, `real` some minutes of
short-lived clients against the daemon, `service` reloads, restarts and kills it. `applications` are the ends
of the first, `daemon` is the process of the others, `measure` finds growth.
`python -m testbed.verify.soak --help`.
"""
