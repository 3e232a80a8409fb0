"""Benchmarks: the bot as it is started, beside the plainest thing that could do the same, on one machine in one run."""
