"""What every test runs with."""

import os

# Ray Data's usage statistics poll from a thread that outlives its test and prints what it could not reach. Printing
# parses source, and up to CPython 3.11.8 two threads that parse at once fail (python/cpython#106905): ONNX's exporter,
# which parses its operators, then failed in another test. Tests send nothing to anybody anyway.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
