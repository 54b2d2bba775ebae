"""Benchmarks of accuracy, speed and memory, run by `make bench`."""
