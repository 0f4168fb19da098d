"""Self-test of links: configured against measured impairments, in the emulator and in Mininet.

cases.py     links, the frames sent over them, and the expected effects
checks.py    judgements: rates, delays, shares, distributions
transits.py  from a capture: departure and arrival of each frame
probe.py     sends the frames, in the emulator and in a Mininet box
"""
