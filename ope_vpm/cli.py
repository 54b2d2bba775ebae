"""The command line: `ope-vpm COMMAND`."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, help="What is a policy worth, from logged data?")


@app.callback()
def _root() -> None:
    """Keep sub-commands named even while there is only one."""


def main() -> None:
    """Run the command line; a user's mistake ends with one sentence and exit code 2."""
    app()
