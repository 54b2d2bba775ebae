"""`python -m benchmarks [NAME]...`: run the benchmarks, each in a process of its own so that memory is not shared.

Words from the first that begins with a dash on are passed to them: `python -m benchmarks wild --half tuning`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    known = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    words = sys.argv[1:]
    if words in (["-h"], ["--help"]):
        print(f"{__doc__}\nThey are: {', '.join(known)}.")
        return 0
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    chosen, options = words[:first] or known, words[first:]
    unknown = [name for name in chosen if name not in known]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}: known are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = 0
    for name in chosen:
        print(f"== {name}", flush=True)
        failed |= subprocess.call([sys.executable, "-c", f"from benchmarks.{name} import main; main()", *options])
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
