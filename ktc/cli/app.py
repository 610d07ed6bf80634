"""The command table and its dispatch. The modules named here import little; the rest loads inside a command."""

from __future__ import annotations

import difflib
import sys
from importlib import import_module

from ktc.ir.diagnostics import KtcError

from .command_parser import Command, call, overview

ABOUT = """A compiler-style transformation toolkit for GPU kernels: CUDA C++ in, a faster verified kernel out, in CUDA,
HIP, OpenCL or Python."""
CLOSING = """`ktc COMMAND --help` has examples; start with `ktc optimize silu_and_mul`. Exit codes: 0 done, 1 the kernel
or the script is at fault, 2 usage, 3 the environment is."""

COMMANDS = {
    "optimize": "optimizing",
    "tune": "optimizing",
    "fuse": "fusing",
    "lower": "lowering",
    "port": "lowering",
    "parse": "surveying",
    "passes": "inspecting",
    "sites": "inspecting",
    "facts": "analysing",
    "verify": "verifying",
    "profile": "profiling",
    "tryout": "profiling",
    "capture": "capturing",
    "rerun": "capturing",
    "replay": "reporting",
    "export": "exports",
    "update": "recipe_updates",
    "report": "reporting",
    "kernels": "starting",
    "init": "starting",
    "doctor": "doctor",
}
"""Command to the module that has the function of its name."""


def command(name: str) -> Command:
    return getattr(import_module(f".{COMMANDS[name]}", __package__), name)


def run(args: list[str]) -> None:
    """Run one command line.

    Raises:
        KtcError: what the command raises, or E-USAGE for an unknown command or malformed options.
        SystemExit: after help.
    """
    if not args or args[0] in ("-h", "--help"):
        print(overview("ktc", ABOUT, {name: command(name) for name in COMMANDS}, CLOSING))
        sys.exit(0 if args else 2)
    if args[0] == "--version":
        from ktc import __version__

        print(f"ktc {__version__}")
    elif args[0] in COMMANDS:
        call(f"ktc {args[0]}", command(args[0]), args[1:])
    else:
        near = difflib.get_close_matches(args[0], COMMANDS, 1)
        hint = f"did you mean '{near[0]}'?" if near else "`ktc --help` lists the commands"
        raise KtcError("E-USAGE", f"no command '{args[0]}'", hint=hint, exit_code=2)
