"""Controlled push in simulated networks, held against what must hold.

:mod:`~testbed.verify.push.stories` draws networks and what happens there, :mod:`~testbed.verify.push.world`
plays that with the real forwarders, consumers and producers over links that lose, duplicate, delay and break:
:mod:`~testbed.verify.push.world.invariants` looks at every frame and every delivery.
:mod:`~testbed.verify.push.exhaust` plays short exchanges under every schedule of a few faults.
"""
