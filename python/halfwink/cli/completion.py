"""``halfwink completion``: a script that completes commands and options in a shell."""

from __future__ import annotations

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"] = "bash", /) -> int:
    """Print a script that completes commands and options in a shell.

    For bash: `halfwink completion > ~/.local/share/bash-completion/completions/halfwink`

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from halfwink.cli.main import build

    print(build().generate_completion(shell=shell))
    return 0
