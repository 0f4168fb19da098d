"""Suites of hashes and signatures beside those of classic messages, and logs that they save."""
