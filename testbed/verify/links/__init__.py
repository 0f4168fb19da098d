"""What links do to frames, measured: asked against measured, in the emulator and in Mininet.

cases.py     links, the frames that are sent over them, and what should come of it
checks.py    judgements: rates, delays, shares, distributions
transits.py  from a capture: when each frame was sent, and when it arrived
probe.py     sending the frames, in the emulator and in a box of Mininet's
"""
