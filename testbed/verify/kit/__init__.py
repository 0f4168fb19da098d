"""Common machinery of all families of simulated worlds: stories, and tools for them.

Theory of operation. A seed makes a :mod:`story <testbed.verify.kit.story>`: plain data, a world and its timed
events. A :mod:`family <testbed.verify.kit.family>` makes stories of one kind, and plays them with the real
code in virtual time; :func:`~testbed.verify.kit.outcome.played` turns failures into an outcome. All else is
common. :mod:`~testbed.verify.kit.search` plays many seeds. A failing story is shrunk by
:mod:`~testbed.verify.kit.shrink` and drawn by :mod:`~testbed.verify.kit.chart`.
:mod:`~testbed.verify.kit.explore` mutates stories that showed something new, or recovered slowly. Deliberate
bugs in `tests/mutants/` show that the stories would find them. :mod:`~testbed.verify.kit.world` is the base
of worlds in the emulator.
"""
