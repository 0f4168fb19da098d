"""From captured packets to a comparison: tables by Spark, and the page that shows them.

The captures are the only witness. What a node's PIT held, what an item cost and what crossed a link is
derived from the frames on its interfaces; the forwarders' own counters serve to check that, never to
replace it. Every step is a function from DataFrames to a DataFrame, in the order of `analysis.pipelines.run`:

    source -> decode -> reassemble -> pit, latency, overhead -> compare -> report

All times are integer nanoseconds, on one clock for the whole run.
"""
