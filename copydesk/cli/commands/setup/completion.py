"""The command `copydesk completion`: prints a script that completes commands and options in a shell."""

from collections.abc import Iterator
from enum import Enum, StrEnum
from typing import Annotated, Any, NamedTuple

import typer

PROGRAM = "copydesk"

app = typer.Typer(rich_markup_mode=None)


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class Word(NamedTuple):
    text: str
    help: str
    is_option: bool = False
    takes_value: bool = False
    choices: tuple[str, ...] = ()


class Level(NamedTuple):
    path: str
    """The words up to here, such as `copydesk project create`."""
    words: list[Word]
    """The commands and options that can follow."""


@app.command()
def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_choices=False)],
) -> None:
    """Prints a script that completes commands and options in your shell.

    For bash, save it as ~/.local/share/bash-completion/completions/copydesk, for fish as
    ~/.config/fish/completions/copydesk.fish, and for zsh as _copydesk in a folder of $fpath.
    """
    levels = list(list_levels(context.find_root().command, PROGRAM))
    write = {Shell.BASH: write_bash_script, Shell.ZSH: write_zsh_script, Shell.FISH: write_fish_script}[shell]
    typer.echo(write(levels))


def list_levels(command: Any, path: str) -> Iterator[Level]:
    """Lists the words of a command and of all commands below it."""
    below = {name: each for name, each in getattr(command, "commands", {}).items() if not each.hidden}
    words = [Word(name, each.get_short_help_str(200)) for name, each in below.items()]
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            choices = _list_choices(parameter)
            help_text = (parameter.help or "").partition("\n")[0]
            takes_value = not (parameter.is_flag or parameter.count)
            words += [Word(name, help_text, True, takes_value, choices) for name in _long_names(parameter)]
        elif parameter.param_type_name == "argument":
            words += [Word(choice, "") for choice in _list_choices(parameter)]
    yield Level(path, [*words, Word("--help", "Show help.", is_option=True)])
    for name, each in below.items():
        yield from list_levels(each, f"{path} {name}")


def _list_choices(parameter: Any) -> tuple[str, ...]:
    annotation = parameter.type_descriptor.annotation
    is_enum = isinstance(annotation, type) and issubclass(annotation, Enum)
    return tuple(str(each.value) for each in annotation) if is_enum else ()


def _long_names(option: Any) -> list[str]:
    return [name for name in (*option.opts, *option.secondary_opts) if name.startswith("--")]


def write_bash_script(levels: list[Level]) -> str:
    known = _quote_all(level.path for level in levels[1:])
    words = [f"    {_quote(level.path)}) words={_quote(_join(level))} ;;" for level in levels]
    values = [
        f"    {_quote(f'{level.path} {word.text}')}) words={_quote(' '.join(word.choices))} ;;"
        for level in levels
        for word in level.words
        if word.takes_value
    ]
    return "\n".join(
        (
            "# Completes the commands and options of copydesk in bash.",
            "_copydesk() {",
            "  local at=copydesk i words word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}",
            "  for ((i = 1; i < COMP_CWORD; i++)); do",
            '    case "$at ${COMP_WORDS[i]}" in',
            f'    {"|".join(known)}) at="$at ${{COMP_WORDS[i]}}" ;;',
            "    esac",
            "  done",
            '  case "$at" in',
            *words,
            "  esac",
            '  case "$at $previous" in',
            *values,
            "  esac",
            '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")',
            "}",
            "complete -o default -F _copydesk copydesk",
        )
    )


def write_zsh_script(levels: list[Level]) -> str:
    known = _quote_all(level.path for level in levels[1:])
    described = [
        f"    {_quote(level.path)}) described=({' '.join(_quote_all(map(_describe_for_zsh, level.words)))}) ;;"
        for level in levels
    ]
    values = [
        f"    {_quote(f'{level.path} {word.text}')}) described=({' '.join(_quote_all(word.choices))}) ;;"
        for level in levels
        for word in level.words
        if word.takes_value
    ]
    return "\n".join(
        (
            "#compdef copydesk",
            "# Completes the commands and options of copydesk in zsh.",
            "_copydesk() {",
            "  local at=copydesk i",
            "  local -a described",
            "  for ((i = 2; i < CURRENT; i++)); do",
            '    case "$at ${words[i]}" in',
            f'    {"|".join(known)}) at="$at ${{words[i]}}" ;;',
            "    esac",
            "  done",
            '  case "$at" in',
            *described,
            "  esac",
            '  case "$at ${words[CURRENT - 1]}" in',
            *values,
            "  esac",
            "  if (( ${#described} )); then _describe copydesk described || _files; else _files; fi",
            "}",
            'if [[ "${funcstack[1]}" == _copydesk ]]; then _copydesk "$@"; else compdef _copydesk copydesk; fi',
        )
    )


def write_fish_script(levels: list[Level]) -> str:
    lines = [
        "# Completes the commands and options of copydesk in fish.",
        "function __copydesk_at",
        "  set -l at copydesk",
        f"  set -l known {' '.join(_quote_all((level.path for level in levels[1:]), for_fish=True))}",
        "  for word in (commandline -opc)[2..-1]",
        '    contains -- "$at $word" $known; and set at "$at $word"',
        "  end",
        '  test "$at" = "$argv[1]"',
        "end",
    ]
    for level in levels:
        place = f"complete -c copydesk -n {_quote(f'__copydesk_at {_quote(level.path, True)}', True)}"
        for word in level.words:
            text = f"-l {word.text.removeprefix('--')}" if word.is_option else f"-f -a {_quote(word.text, True)}"
            values = f" -x -a {_quote(' '.join(word.choices), True)}" if word.choices else ""
            needs_value = " -r" if word.takes_value and not word.choices else ""
            lines.append(f"{place} {text}{values}{needs_value} -d {_quote(word.help, True)}")
    return "\n".join(lines)


def _join(level: Level) -> str:
    return " ".join(word.text for word in level.words)


def _describe_for_zsh(word: Word) -> str:
    name = word.text.replace(":", "\\:")
    return f"{name}:{word.help}" if word.help else name


def _quote_all(texts: Any, for_fish: bool = False) -> list[str]:
    return [_quote(text, for_fish) for text in texts]


def _quote(text: str, for_fish: bool = False) -> str:
    """Quotes a text for the shell, so that help texts with quotes stay text."""
    if for_fish:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "'\\''") + "'"
