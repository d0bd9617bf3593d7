"""``windlass completion``: what the shell offers at TAB.

A shell calls ``windlass __complete WORD... CURRENT`` and gets one candidate a line (value, tab, description) and then a
line ``:N``; N is 4, or 0 where files may be meant as well. That is the protocol of kubectl and its plugins.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args, get_type_hints

import typer

from windlass.cli.registry import COMMANDS, load

SECONDS: Final = 3.0
"""How long a cluster may take to name its packages: nobody waits longer for a TAB."""

_FILES: Final = 0
_NO_FILES: Final = 4


class Shell(StrEnum):
    """Shells that completion is written for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class Candidates(NamedTuple):
    """What may stand at the cursor: values with what they mean, and whether files may too."""

    values: Sequence[tuple[str, str]]
    files: bool = False


_BASH: Final = """\
_windlass() {
    local line directive=4 cur="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            :*) directive="${line#:}" ;;
            *) COMPREPLY+=("$(printf '%q' "${line%%$'\\t'*}")") ;;
        esac
    done < <(windlass __complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$cur" 2>/dev/null)
    if [[ $directive == 0 && ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$cur")
    fi
}
complete -F _windlass windlass
"""

_ZSH: Final = """\
#compdef windlass
_windlass() {
    local line directive=4
    local -a found
    while IFS= read -r line; do
        case "$line" in
            :*) directive="${line#:}" ;;
            *) found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}") ;;
        esac
    done < <(windlass __complete "${(@)words[2,CURRENT-1]}" "${words[CURRENT]}" 2>/dev/null)
    (( ${#found} )) && _describe 'windlass' found
    [[ $directive == 0 ]] && _files
}
compdef _windlass windlass
"""

_FISH: Final = """\
function __windlass
    set -l words (commandline -opc)
    for line in (windlass __complete $words[2..-1] (commandline -ct) 2>/dev/null)
        switch $line
            case ':0'
                __fish_complete_path (commandline -ct)
            case ':*'
            case '*'
                echo $line
        end
    end
end
complete -c windlass -f -a '(__windlass)'
"""

SCRIPTS: Final = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="Your shell: bash, zsh or fish.")]) -> None:
    """Print a script that teaches your shell the commands, options, and the names of packages and namespaces."""
    typer.echo(SCRIPTS[shell], nl=False)


def answer(words: Sequence[str]) -> str:
    """Return what ``windlass __complete`` prints for the words up to the cursor, the unfinished last one included."""
    *done, current = words or [""]
    found = candidates(done, current)
    lines = [f"{value}\t{meaning}" for value, meaning in found.values if value.startswith(current)]
    return "\n".join([*lines, f":{_FILES if found.files else _NO_FILES}"]) + "\n"


def candidates(done: Sequence[str], current: str) -> Candidates:
    """Return what may stand at the cursor.

    Args:
        done: the finished words behind the program's name.
        current: the word at the cursor, as far as it is typed.
    """
    words = [word for word in done if word != "--debug"]
    if not words:
        return Candidates([(name, entry[2]) for name, entry in COMMANDS.items()])
    name, *words = words
    if name not in COMMANDS:
        return Candidates([])
    command: Any = load(name)
    while getattr(command, "commands", None):
        if not words:
            return Candidates([(one, _short(sub)) for one, sub in command.commands.items()])
        if words[0] not in command.commands:
            return Candidates([])
        command, words = command.commands[words[0]], words[1:]
    return _of_command(command, words, current)


def _of_command(command: Any, words: Sequence[str], current: str) -> Candidates:
    options = {text: one for one in command.params if one.param_type_name == "option" for text in one.opts}
    before = options.get(words[-1]) if words else None
    if before is not None and not before.is_flag:
        return _values(command, before, words)
    if current.startswith("-"):
        told = [(text, one.help or "") for text, one in options.items() if text.startswith("--")]
        return Candidates([*told, ("--help", "Show the command's options")])
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    given = _positional(words, options)
    if given < len(arguments):
        return _values(command, arguments[given], words)
    if arguments and arguments[-1].nargs == -1:
        return _values(command, arguments[-1], words)
    return Candidates([])


def _positional(words: Sequence[str], options: dict[str, Any]) -> int:
    """Count the words that are neither options nor their values."""
    count, skip = 0, False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            option = options.get(word)
            skip = option is not None and not option.is_flag
        else:
            count += 1
    return count


def _values(command: Any, param: Any, words: Sequence[str]) -> Candidates:
    types = _types(command, param.name)
    if choices := [one for type_ in types if issubclass(type_, StrEnum) for one in type_]:
        return Candidates([(one.value, "") for one in choices])
    match param.name:
        case "name":
            return Candidates(_asked(_packages(_option(words, "-n", "--namespace"), _data_dir(words))))
        case "namespace":
            return Candidates(_asked(_namespaces(_data_dir(words))))
        case "part":
            return Candidates([(one, "") for one in _parts(_data_dir(words))])
        case _:
            return Candidates([], files=Path in types or param.name == "file")


def _types(command: Any, name: str) -> list[type]:
    """Return the classes in the annotation of one parameter: of ``list[Path] | None``, Path."""
    left: list[Any] = [get_type_hints(inspect.unwrap(command.callback)).get(name)]
    found: list[type] = []
    while left:
        one = left.pop()
        if inner := get_args(one):
            left += inner
        elif isinstance(one, type):
            found.append(one)
    return found


def _option(words: Sequence[str], *names: str) -> str:
    """Return the last value given to an option."""
    value = ""
    for at, word in enumerate(words):
        if word in names and at + 1 < len(words):
            value = words[at + 1]
        for name in names:
            if word.startswith(f"{name}="):
                value = word.partition("=")[2]
    return value


def _data_dir(words: Sequence[str]) -> Path | None:
    named = _option(words, "--data-dir")
    return Path(named) if named else None


def _asked(question: Any) -> list[tuple[str, str]]:
    """Return the answer of a cluster; nothing if there is no cluster or none in time: a shell shows no errors."""
    from windlass.domain.errors import WindlassError

    async def ask() -> list[tuple[str, str]]:
        async with asyncio.timeout(SECONDS):
            return await question

    try:
        return asyncio.run(ask())
    except (WindlassError, TimeoutError, OSError):
        return []


async def _packages(namespace: str, data_dir: Path | None) -> list[tuple[str, str]]:
    """Name the Applications of the namespace, and the Modules as ``module/NAME``."""
    from windlass.cli.cluster import cluster
    from windlass.cli.packages.views import version_text
    from windlass.cli.target import address
    from windlass.domain.ids import Kind

    async with cluster(namespace, data_dir) as place:
        applications, modules = await asyncio.gather(place.packages(), place.packages(Kind.MODULE))
    named = [(one.metadata.name, one) for one in applications] + [(address(one), one) for one in modules]
    return [(name, f"{one.spec.package.name} {version_text(one)}") for name, one in named]


async def _namespaces(data_dir: Path | None) -> list[tuple[str, str]]:
    from windlass.cli.cluster import cluster

    async with cluster("", data_dir) as place:
        found = await place.kube.list("v1", "Namespace", metadata_only=True)
    return [(str(one["metadata"]["name"]), "") for one in found.items]


def _parts(data_dir: Path | None) -> list[str]:
    from windlass.devstack import paths

    return sorted(file.stem for file in (paths.data_dir(data_dir) / "logs").glob("*.log"))


def _short(command: Any) -> str:
    first, *_ = (command.help or "").splitlines() or [""]
    return first


def write_answer(words: Sequence[str]) -> None:
    """Print the answer for a shell."""
    sys.stdout.write(answer(words))
