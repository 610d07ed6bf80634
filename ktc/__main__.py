"""``ktc`` and ``python -m ktc``: run a command, and turn errors into messages and exit codes.

Nothing is imported from the current folder: it leaves the path before anything else is loaded.

Exit codes: 0 done; 1 the kernel or the script is at fault; 2 usage; 3 the environment; 130 interrupted; 70 our bug.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_BUG = 70
"""Also that of an :class:`~ktc.ir.diagnostics.InternalError`, which has been met and reported before."""
EXIT_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run one command line (default: this process's); returns the exit code."""
    if argv is None:
        from ktc.ir.support.child_python import leave_current_folder
        from ktc.ir.support.collector import collect_seldom

        leave_current_folder(__name__ == "__main__")
        collect_seldom()
    from ktc.cli.app import run

    args = sys.argv[1:] if argv is None else argv
    return exit_code(lambda: run(args), "--json" in args)


def exit_code(work: Callable[[], None], as_json: bool = False) -> int:
    """Do ``work``; what it raises becomes a message, on standard output too if ``as_json``, and an exit code."""
    from ktc.ir.diagnostics import KtcError

    try:
        work()
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else 0 if e.code is None else 1
    except KtcError as e:
        _report(e, as_json)
        return e.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as e:
        if e.filename is None:
            return _bug(e, as_json)
        _report(KtcError("E-FILE", f"{e.filename}: {e.strerror}", exit_code=3), as_json)
        return 3
    except Exception as e:
        return _bug(e, as_json)
    return 0


def _report(error: Exception, as_json: bool) -> None:
    from ktc.cli.output import colour_error
    from ktc.ir.diagnostics import KtcError, render

    assert isinstance(error, KtcError)
    if as_json:
        import json

        print(json.dumps(error.to_json()))
    print(colour_error(render(error)), file=sys.stderr)


def _bug(error: BaseException, as_json: bool) -> int:
    """Anything that is not a KtcError is our fault: say so, and what to send; the traceback on request."""
    from ktc.ir.diagnostics import InternalError

    _report(InternalError(error), as_json)
    return EXIT_BUG


if __name__ == "__main__":
    sys.exit(main())
