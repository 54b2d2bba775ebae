"""`python -m benchmarks [NAME]...`: run the benchmarks, each in a process of its own so that memory is not shared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    known = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    chosen = sys.argv[1:] or known
    unknown = [name for name in chosen if name not in known]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}: known are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = 0
    for name in chosen:
        print(f"== {name}", flush=True)
        failed |= subprocess.call([sys.executable, "-c", f"from benchmarks.{name} import main; main()"])
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
