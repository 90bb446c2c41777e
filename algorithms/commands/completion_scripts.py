"""The scripts that `chess-lab completion` prints: plain lists of words, so that no key press starts Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """The words that may follow a command.

    Attributes:
        text: what the command does.
        names: its first argument, where that has names.
        flags: {flag: its choices}; no choices where any value may follow.
        second: its second argument, where that has names.
    """

    text: str
    names: tuple[str, ...]
    flags: Mapping[str, tuple[str, ...]]
    second: tuple[str, ...] = ()


Commands = Mapping[str, Words]

BASH = """\
# Completion of chess-lab in bash: source <(chess-lab completion bash)
_chess_lab() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
  local command=${{COMP_WORDS[1]}} names= second= flags= choices= words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands}"
  else
    case $command in
{cases}
    esac
    case "$command $prev" in
{choices}
    esac
    if [ -n "$choices" ]; then
      words=$choices
    elif [ "${{cur:0:1}}" = - ]; then
      words="$flags --help"
    elif [ "$COMP_CWORD" -eq 2 ] || [ "$command" = compare ]; then
      words=$names
    elif [ "$COMP_CWORD" -eq 3 ]; then
      words=$second
    fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _chess_lab chess-lab"""

ZSH = """\
#compdef chess-lab
# Completion of chess-lab in zsh: put this file as _chess-lab into a folder of $fpath.
_chess_lab() {{
  local -a names second flags choices
  if (( CURRENT == 2 )); then
    compadd -- {commands}
    return
  fi
  case $words[2] in
{cases}
  esac
  case "$words[2] $words[CURRENT-1]" in
{choices}
  esac
  if (( $#choices )); then
    compadd -- $choices
  elif [[ $PREFIX == -* ]]; then
    compadd -- $flags --help
  elif (( CURRENT == 3 && $#names )) || [[ $words[2] == compare ]]; then
    compadd -- $names
  elif (( CURRENT == 4 && $#second )); then
    compadd -- $second
  else
    _files
  fi
}}
if [ "$funcstack[1]" = "_chess-lab" ]; then _chess_lab "$@"; else compdef _chess_lab chess-lab; fi"""


def bash(commands: Commands) -> str:
    """The script for bash 3.2 or later."""
    cases, choices = [], []
    for name, words in commands.items():
        cases.append(
            f'      {name}) names="{" ".join(words.names)}"; second="{" ".join(words.second)}"\n'
            f'        flags="{" ".join(words.flags)}" ;;'
        )
        choices += [
            f'      "{key}") choices="{" ".join(c)}" ;;' for key, c in _choices(name, words)
        ]
    return BASH.format(
        commands=" ".join(commands), cases="\n".join(cases), choices="\n".join(choices)
    )


def zsh(commands: Commands) -> str:
    """The script for zsh."""
    cases, choices = [], []
    for name, words in commands.items():
        cases.append(
            f"    {name}) names=({' '.join(words.names)}); second=({' '.join(words.second)})\n"
            f"      flags=({' '.join(words.flags)}) ;;"
        )
        choices += [f'    "{key}") choices=({" ".join(c)}) ;;' for key, c in _choices(name, words)]
    return ZSH.format(
        commands=" ".join(commands), cases="\n".join(cases), choices="\n".join(choices)
    )


def fish(commands: Commands) -> str:
    """The script for fish."""
    start = "complete -c chess-lab"
    lines = ["# Completion of chess-lab in fish: ~/.config/fish/completions/chess-lab.fish"]
    for name, words in commands.items():
        text = words.text.replace("'", r"\'")
        lines.append(f"{start} -n __fish_use_subcommand -f -a {name} -d '{text}'")
    for name, words in commands.items():
        behind = f"{start} -n '__fish_seen_subcommand_from {name}'"
        if names := (*words.names, *words.second):
            lines.append(f"{behind} -a '{' '.join(names)}'")
        for flag, choices in words.flags.items():
            values = f" -x -a '{' '.join(choices)}'" if choices else ""
            lines.append(f"{behind} -l {flag.removeprefix('--')}{values}")
    return "\n".join(lines)


def _choices(command: str, words: Words) -> list[tuple[str, tuple[str, ...]]]:
    """(command and flag, choices) of the flags that have choices."""
    return [(f"{command} {flag}", choices) for flag, choices in words.flags.items() if choices]


SCRIPTS: dict[str, Callable[[Commands], str]] = {"bash": bash, "fish": fish, "zsh": zsh}
