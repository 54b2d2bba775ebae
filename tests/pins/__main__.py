"""`python -m tests.pins`: print which pinned answers have moved; `--write` takes the present ones instead."""

from __future__ import annotations

import argparse
import sys

from tests.pins.answers import compute, differences, read, write
from tests.pins.cases import cases


def main() -> None:
    """Compare all cases, or those named, with what is stored."""
    parser = argparse.ArgumentParser(prog="python -m tests.pins", description=__doc__)
    parser.add_argument("case", nargs="*", help=f"of {', '.join(cases())}; all by default")
    parser.add_argument("--write", action="store_true", help="store the present answers")
    given = parser.parse_args()
    stored, moved = read(), 0
    for name in given.case or cases():
        present = compute(name)
        for line in differences(name, stored.get(name, {}), present):
            print(line, flush=True)
            moved += 1
        stored[name] = present
    if given.write:
        write(stored)
    print(f"{moved} moved of {sum(map(len, stored.values()))}")
    sys.exit(bool(moved) and not given.write)


if __name__ == "__main__":
    main()
