"""Deterministic simulation: whole networks in virtual time, one a seed, held against what must hold.

Theory of operation. A seed makes a :mod:`story <testbed.verify.simulate.story>`: a plain list of what the
world is and what happens when. :mod:`~testbed.verify.simulate.world` plays it with the real forwarders,
consumers and producers over links that lose, duplicate, delay and break;
:mod:`~testbed.verify.simulate.invariants` looks at every frame and every delivery. A story that fails is cut
down by :mod:`~testbed.verify.simulate.shrink` and drawn by :mod:`~testbed.verify.simulate.chart`.
:mod:`~testbed.verify.simulate.mutants` shows that it would have failed.

Classic NDN takes part in a family of :mod:`stories <testbed.verify.simulate.classic_story>` of its own:
:mod:`~testbed.verify.simulate.classic` has its applications, :mod:`~testbed.verify.simulate.exchanges` and
:mod:`~testbed.verify.simulate.linkwatch` are its observers.

Beside seeds there are :mod:`~testbed.verify.simulate.explore`, which changes stories that showed something
new, :mod:`~testbed.verify.simulate.climb`, which changes those that recovered slowly, and
:mod:`~testbed.verify.simulate.exhaust`, which plays short exchanges under every schedule of a few
faults.
"""
