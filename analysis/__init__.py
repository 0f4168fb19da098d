"""From captured packets to a comparison of layerings: tables computed by Spark, and the page that shows them.

The captures are the only evidence. PIT state, cost per item and link load are derived from the frames at the
nodes' interfaces; the forwarders' own counters only check the result. Each room is a folder of this package;
`analysis.pipelines` orders their steps:

    decode -> tables -> pit -> metrics -> report

All times are integer nanoseconds on one clock for the whole run.
"""
