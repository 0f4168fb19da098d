"""Killing processes that write to a store, and looking at what is left: `python -m testbed.verify.crash`.

Theory of operation. A child process opens the store and changes it, as fast as it can. It says on a pipe what
it begins, and what it has been told to be done. At a random instant it is killed (SIGKILL), which may be
while the store is made, opened, written or merged with its log. The store is opened again, and must hold what
was acknowledged. Then the next child goes on, in the same store or in a new one.

All that is written follows from the seed, so that it is known without asking the store. A kill is not a power
cut: what the operating system has been given stays.

drill.py  kills, one after the other, and stores: the same for all kinds
feeds.py  stores of classic feeds, tiny.py of tinySSB's, views.py accounts with the views of their messages
"""
