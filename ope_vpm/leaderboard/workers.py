"""What a worker process does before its first job: one thread, Ctrl-C ignored, and an end with its parent.

A worker imports this module first: it needs little, so that a Ctrl-C is ignored soon.
"""

import ctypes
import os
import signal
import sys
import threading
import time

PARENT_DIED = 1
"""PR_SET_PDEATHSIG of Linux's prctl: the signal to get when the parent dies."""
LOOK = 1.0
"""Seconds between two looks at the parent."""


def prepare(parent: int) -> None:
    """Prepare this process for jobs.

    Args:
        parent: the process that hands out the jobs; this one ends when it is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to answer
    os.environ["OMP_NUM_THREADS"] = "1"  # for torch, should a job import it
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    end_with(parent)


def end_with(parent: int) -> None:
    """See to it that this process ends soon after `parent`, also if that is killed and can tell nobody.

    Linux itself kills it, even while C code runs; a thread that looks at the parent serves other systems, and the
    case that the parent died before Linux was asked. On Windows a process does not learn that its parent has gone.
    """
    if os.name != "posix":
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PARENT_DIED, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), daemon=True, name="parent watch").start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)
