"""Classic NDN in simulated networks, with or without controlled push.

applications.py  consumers, producers and followers of a network
clients.py       their classes
exchanges.py     observer of Interests and their answers at each node
"""
