"""The replication ladder as models: what protocols cost on random networks, by numpy, at any size.

The three tables of "scalable secure scuttlebutt" (Tarr, seed of the appendix of Tarr et al. 2019), whose
programs were not published, are made again from the networks and rules that give their figures.
"""
