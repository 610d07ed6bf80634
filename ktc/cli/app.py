"""The command tree. Modules here import typer and the standard library only; the rest loads inside the commands."""

from __future__ import annotations

from typing import Annotated

import typer

from . import doctor, inspecting, library, lowering, optimizing, reporting, verifying

HELP = """A compiler-style transformation toolkit for GPU kernels: CUDA C++ in, a faster verified kernel out, in CUDA,
HIP, OpenCL or Python."""
EPILOG = """Start with: ktc optimize silu_and_mul. Exit codes: 0 done, 1 the kernel or script is at fault, 2 usage,
3 the environment is."""

app = typer.Typer(
    name="ktc",
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(wanted: bool) -> None:
    if wanted:
        from ktc import __version__

        print(f"ktc {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for command in (
    lowering.lower,
    inspecting.passes,
    inspecting.sites,
    verifying.verify,
    optimizing.tune,
    optimizing.optimize,
    reporting.report,
    reporting.replay,
    lowering.port,
    doctor.doctor,
    library.kernels,
    library.init,
):
    app.command()(command)
