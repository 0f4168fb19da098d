"""Crash tests of stores by SIGKILL: `python -m testbed.verify.crash`.

Theory of operation. A child process opens the store and changes it as fast as it can. It reports on a pipe
the changes begun and acknowledged. At a random instant it is killed (SIGKILL), possibly while the store is
created, opened, written or merged with its log. The store is opened again, and must contain all acknowledged
changes. The next child continues, in the same store or in a new one.

All content follows from the seed, so it is known without reading the store. A kill is not a power cut: data
handed to the operating system persist.

drill.py  the kill loop, common to all kinds of stores
feeds.py  stores of classic feeds, tiny.py of tinySSB's, views.py accounts with views of their messages
"""
