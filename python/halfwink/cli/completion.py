"""``halfwink completion``: a script with which a shell completes commands, options and names."""

from __future__ import annotations

import os
import sys
from typing import Literal

#: In the environment where a shell's script asks what could come next, instead of running it.
ASKS = "HALFWINK_COMPLETES"

BASH = r"""# Completion of halfwink in bash: names come from halfwink itself.
_halfwink() {
  local IFS=$' \t\n' line word cut files=
  local -a words
  # Whole words: bash has split them at `:` and `=`, too.
  read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
  [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
  word=${words[${#words[@]}-1]}
  cut=${word%"${word##*[:=]}"}
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=yes
    else
      line=${line%%$'\t'*}
      COMPREPLY+=("${line#"$cut"}")
      [[ $line == */ ]] && compopt -o nospace 2>/dev/null
    fi
  done < <(HALFWINK_COMPLETES=1 "${1/#\~/$HOME}" "${words[@]:1}" 2>/dev/null)
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r line; do
      COMPREPLY+=("$line")
    done < <(compgen -f -- "${word#"$cut"}")
  fi
}
complete -F _halfwink halfwink
"""

ZSH = r"""#compdef halfwink
# Completion of halfwink in zsh: names come from halfwink itself.
_halfwink() {
  local line files=
  local -a found asked
  asked=("${(@Q)words[2,CURRENT]}")
  for line in "${(@f)$(HALFWINK_COMPLETES=1 ${~words[1]} "${asked[@]}" 2>/dev/null)}"; do
    if [[ $line == :files ]]; then
      files=yes
    elif [[ -n $line ]]; then
      found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done
  _describe halfwink found
  [[ -z $files ]] || _files
}
if [[ ${funcstack[1]} == _halfwink ]]; then
  _halfwink "$@"
else
  compdef _halfwink halfwink
fi
"""

FISH = r"""# Completion of halfwink in fish: names come from halfwink itself.
function __halfwink_completes
    set -lx HALFWINK_COMPLETES 1
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (command $words[1] $words[2..] "$current" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c halfwink -f -a '(__halfwink_completes)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(shell: Literal["bash", "zsh", "fish"] = "bash", /) -> int:
    """Print a script that completes commands, options and names in a shell.

    In ~/.bashrc: `eval "$(halfwink completion)"`; in ~/.zshrc, after compinit: `eval "$(halfwink
    completion zsh)"`; in ~/.config/fish/config.fish: `halfwink completion fish | source`.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    print(SCRIPTS[shell], end="")
    return 0


def asked() -> bool:
    """Returns whether a shell asks for completions."""
    return bool(os.environ.get(ASKS))


def answer(words: list[str]) -> None:
    """Prints it, a line each; what is wrong before has nothing that could follow."""
    from halfwink.cli.completing import candidates
    from halfwink.errors import HalfwinkError

    try:
        lines = candidates(words or [""]).lines()
    except HalfwinkError:
        return
    sys.stdout.write("".join(f"{line}\n" for line in lines))
