"""Soaking: traffic for long, in which nothing may grow that should not.

`virtual` runs a day of mixed traffic through a small network of nodes in the emulator, `real` some minutes
of clients that come and go against the daemon. `applications` are at the ends of the first, `measure` looks
for what grows. `python -m testbed.verify.soak --help`.
"""
