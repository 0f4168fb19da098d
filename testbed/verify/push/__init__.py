"""Controlled push in simulated networks, checked against invariants.

:mod:`~testbed.verify.push.stories` draws networks and events, :mod:`~testbed.verify.push.world` plays them
with the real forwarders, consumers and producers over links that lose, duplicate, delay and break;
:mod:`~testbed.verify.push.world.invariants` checks every frame and every delivery.
:mod:`~testbed.verify.push.exhaust` plays short exchanges under every schedule of a few faults.
"""
