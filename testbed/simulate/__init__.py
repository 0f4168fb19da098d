"""Deterministic simulation: whole networks in virtual time, one a seed, held against what must hold.

Theory of operation. A seed makes a :mod:`story <testbed.simulate.story>`: a plain list of what the world is
and what happens when. :mod:`~testbed.simulate.world` plays it with the real forwarders, consumers and
producers over links that lose, duplicate, delay and break; :mod:`~testbed.simulate.invariants` looks at
every frame and every delivery. A story that fails is cut down by :mod:`~testbed.simulate.shrink` and drawn
by :mod:`~testbed.simulate.chart`. :mod:`~testbed.simulate.mutants` shows that it would have failed.

Classic NDN takes part in a family of :mod:`stories <testbed.simulate.classic_story>` of its own:
:mod:`~testbed.simulate.classic` has its applications, :mod:`~testbed.simulate.exchanges` and
:mod:`~testbed.simulate.linkwatch` are its observers.

Beside seeds there is :mod:`~testbed.simulate.explore`, which changes stories that showed something new, and
:mod:`~testbed.simulate.exhaust`, which plays short exchanges under every schedule of a few faults.
"""
