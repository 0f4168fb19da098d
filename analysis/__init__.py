"""From captured packets to a comparison: tables by Spark, and the page that shows them.

The captures are the only witness. What a node's PIT held, what an item cost and what crossed a link is
derived from the frames on its interfaces; the forwarders' own counters serve to check that, never to
replace it. Each room is a folder of this package; `analysis.pipelines` orders their steps:

    decode -> tables -> pit -> metrics -> report

All times are integer nanoseconds, on one clock for the whole run.
"""
