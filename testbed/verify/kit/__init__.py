"""One kit for all families of simulated worlds: what a story is, and everything that is done with one.

Theory of operation. A seed makes a :mod:`story <testbed.verify.kit.story>`: plain data, what a world is and
what happens in it when. A :mod:`family <testbed.verify.kit.family>` makes stories of one kind, and plays them
with the real code in virtual time; :func:`~testbed.verify.kit.outcome.played` turns what goes wrong into an
outcome. All else is the same for all families. :mod:`~testbed.verify.kit.search` plays many seeds. A story
that fails is cut down by :mod:`~testbed.verify.kit.shrink` and drawn by :mod:`~testbed.verify.kit.chart`.
:mod:`~testbed.verify.kit.explore` changes stories that showed something new, or recovered slowly.
Deliberate bugs in `tests/mutants/` show that the stories would find them.

:mod:`~testbed.verify.kit.world` is the base of worlds in the emulator.
"""
