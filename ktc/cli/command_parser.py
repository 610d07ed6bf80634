"""Commands from functions: annotated parameters become options, the docstring the help. On argparse, for start-up time.

::

    def lower(kernel: Annotated[str, Argument("KERNEL", "What to lower.")],
              check: Annotated[bool, Option("--check", help="Compile it.")] = False) -> None:
        \"\"\"First line: the summary.

        Examples:
          ktc lower k.cu
        \"\"\"

A ``bool`` is a flag (``--x/--no-x`` gives both ways), a ``list[str]`` may be repeated (a positional one takes all that
is left, ``--`` before it), a ``StrEnum`` is a choice, and a positional with a default is optional.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import math
import re
import textwrap
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NoReturn

from ktc.ir.diagnostics import KtcError

Command = Callable[..., None]


class Argument:
    """A positional argument."""

    def __init__(self, metavar: str, help: str) -> None:
        self.metavar, self.help = metavar, help


class Option:
    """An option with its spellings; ``least`` bounds an integer from below, ``unset``: what an empty default means."""

    def __init__(self, *flags: str, help: str, metavar: str = "", least: int | None = None, unset: str = "") -> None:
        self.flags, self.help, self.metavar, self.least, self.unset = flags, help, metavar, least, unset


class _Switch(argparse.Action):
    """A flag and its opposite, ``on`` and ``off``."""

    def __init__(self, option_strings: Sequence[str], dest: str, default: bool, help: str) -> None:
        on, off = option_strings
        super().__init__(option_strings, dest, 0, default=default, help=f"{help} [default: {on if default else off}]")

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, option == self.option_strings[0])


class _Parser(argparse.ArgumentParser):
    """What is wrong with a command's options is an error as any other is, with what may have been meant."""

    def error(self, message: str) -> NoReturn:
        wrong, meant = _wrong_word(message), self._words(message)
        near = difflib.get_close_matches(wrong.partition("=")[0], meant, 1, 0.7) if wrong else []
        hint = (f"did you mean '{near[0]}'? " if near else "") + f"`{self.prog} --help` has all options, and examples"
        raise KtcError("E-USAGE", message, hint=hint, exit_code=2)

    def _words(self, message: str) -> list[str]:
        """What could have stood in the place of a wrong word: choices of an option, or the options."""
        about = re.match(r"argument ([^\s:/,]+)", message)
        action = self._option_string_actions.get(about[1]) if about else None
        return [str(c) for c in action.choices or ()] if action else list(self._option_string_actions)


def _wrong_word(message: str) -> str:
    """The word that one of argparse's messages is about."""
    found = re.search(r"unrecognized arguments: (-\S+)|invalid choice: '([^']*)'", message)
    return next(filter(None, found.groups()), "") if found else ""


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=min(100, _columns()))


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size((100, 24)).columns


def parser_of(prog: str, command: Command) -> argparse.ArgumentParser:
    """The parser of one command, which its help calls ``prog``."""
    doc = inspect.cleandoc(command.__doc__ or "")
    parser = _Parser(prog, description=doc, formatter_class=_Help, allow_abbrev=False)
    for p in parameters(command):
        kind, meta = typing.get_args(p.annotation)[:2]
        _add(parser, p, kind, meta)
    return parser


def parameters(command: Command) -> list[inspect.Parameter]:
    """The parameters of ``command``, annotations evaluated; ``Program`` is imported for type checkers only."""
    stand_ins = {"Program": object}
    return list(inspect.signature(command, eval_str=True, locals=stand_ins).parameters.values())


def _add(parser: argparse.ArgumentParser, p: inspect.Parameter, kind: Any, meta: Argument | Option) -> None:
    optional = p.default is not inspect.Parameter.empty
    if isinstance(meta, Argument):
        extra: dict[str, Any] = {"nargs": "?", "default": p.default} if optional else {}
        if typing.get_origin(kind) is list:
            extra = {"nargs": "*" if optional else "+"}
        parser.add_argument(p.name, metavar=meta.metavar, help=meta.help, **extra)
        return
    default = meta.unset if p.default in ("", [], math.inf) else "" if kind is bool else str(p.default)
    shown = f" [default: {default}]" if default else ""
    common: dict[str, Any] = {"dest": p.name, "default": p.default, "help": (meta.help + shown).replace("%", "%%")}
    if kind is bool:
        for flag in meta.flags:
            both = flag.split("/")
            parser.add_argument(*both, action=_Switch if len(both) == 2 else "store_true", **common)
    elif typing.get_origin(kind) is list:
        parser.add_argument(*meta.flags, action="append", metavar=meta.metavar, **common | {"default": None})
    elif issubclass(kind, StrEnum):
        choices = [c.value for c in kind]
        parser.add_argument(*meta.flags, choices=choices, metavar=meta.metavar or "|".join(choices), **common)
    elif kind is int:
        parser.add_argument(*meta.flags, type=_integer(meta.least), metavar=meta.metavar or "N", **common)
    elif kind is float:
        parser.add_argument(*meta.flags, type=_positive, metavar=meta.metavar or "X", **common)
    else:
        parser.add_argument(*meta.flags, metavar=meta.metavar or "TEXT", **common)


def _positive(text: str) -> float:
    """A number above zero, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def _integer(least: int | None) -> Callable[[str], int]:
    def integer(text: str) -> int:
        value = int(text)
        if least is not None and value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    return integer


def call(prog: str, command: Command, args: list[str]) -> None:
    """Parse ``args`` and run the command, which its help calls ``prog``.

    Raises:
        KtcError: E-USAGE (exit code 2), options that it does not have, or values that they cannot have; what the
            command raises.
    """
    parser = parser_of(prog, command)
    places = [p for p in parameters(command) if isinstance(typing.get_args(p.annotation)[1], Argument)]
    lists = any(typing.get_origin(typing.get_args(p.annotation)[0]) is list for p in places)
    parse = parser.parse_intermixed_args if len(places) > 1 and not lists else parser.parse_args
    given = vars(parse(args))  # options may stand between the first and the second KERNEL
    for p in parameters(command):
        kind = typing.get_args(p.annotation)[0]
        if typing.get_origin(kind) is list:
            given[p.name] = given[p.name] or []
        elif isinstance(kind, type) and issubclass(kind, StrEnum):
            given[p.name] = kind(given[p.name])
    command(**given)


def overview(prog: str, about: str, commands: Mapping[str, Command], closing: str) -> str:
    """The help of the whole program: every command with its summary."""
    width = max(map(len, commands))
    lines = [f"usage: {prog} [-h] [--version] COMMAND ...", "", textwrap.fill(about, 96), "", "commands:"]
    for name, command in commands.items():
        summary = inspect.cleandoc(command.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        hanging = " " * (width + 4)
        lines.append(textwrap.fill(summary, 96, initial_indent=f"  {name.ljust(width)}  ", subsequent_indent=hanging))
    return "\n".join([*lines, "", textwrap.fill(closing, 96)])
