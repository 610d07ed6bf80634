"""Python processes of our own: they import the installed packages, and nothing from the folder that a user stands in.

``python -m`` puts the current folder first on the path, and an empty or relative entry of ``PYTHONPATH`` does it alike:
in a checkout of somebody else's repository a file ``numpy.py`` would then run in place of numpy. Every process that ktc
starts goes through :func:`python_module` and :func:`python_environment`; the process of the command itself calls
:func:`leave_current_folder` first of all.
"""

import os
import sys

INHERITED = (("isolated", "-I"), ("ignore_environment", "-E"), ("no_user_site", "-s"), ("no_site", "-S"))
"""Flags of this interpreter that its children get: what it may not see, they may not see either."""


RESTING = {"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_THREAD_TIMEOUT": "4"}
"""The environment in which threads that wait sleep. Those of numpy's OpenBLAS else run on for a tenth of a second after
each product of matrices, and OpenMP's for a while after each loop, on cores that whatever is timed next should have."""


def rest_when_waiting() -> None:
    """Have this process's threads of :data:`RESTING` sleep when they wait, unless its user has said something else.
    They read the environment as they are loaded: call it before numpy is."""
    for name, value in RESTING.items():
        os.environ.setdefault(name, value)


def python_module(module: str, *args: str) -> list[str]:
    """The command line that runs ``module`` as a program, with a path that no current folder is on.

    An editable install is found as in this process: it hangs on the interpreter's own ``site-packages``.
    """
    flags = [flag for name, flag in INHERITED if getattr(sys.flags, name)]
    return [sys.executable, "-P", *flags, "-m", module, *args]


def python_environment() -> dict[str, str]:
    """This process's environment, with a ``PYTHONPATH`` of absolute folders alone, and :data:`RESTING`."""
    env = RESTING | dict(os.environ)
    if "PYTHONPATH" in env:
        env["PYTHONPATH"] = os.pathsep.join(filter(os.path.isabs, env["PYTHONPATH"].split(os.pathsep)))
        if not env["PYTHONPATH"]:
            del env["PYTHONPATH"]
    return env


def leave_current_folder(as_module: bool) -> None:
    """Take the current folder off this process's path.

    ``as_module``: the process was started as ``python -m ktc`` or ``python FILE``, which put a folder in front.
    """
    if as_module and not sys.flags.safe_path:
        del sys.path[:1]
    relative = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if not os.path.isabs(p)]
    if relative and os.environ.get("PYTHONPATH") and not sys.flags.ignore_environment:
        unwanted = {os.path.abspath(p) for p in relative}
        sys.path[:] = [p for p in sys.path if os.path.abspath(p) not in unwanted]
