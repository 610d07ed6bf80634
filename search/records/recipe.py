"""Recipes: everything needed to regenerate one kernel byte for byte, and to know what was claimed about it.

A recipe is source + script + knob values + target (its *identity*), and verdicts, timings and versions (its
*evidence*). It is written as canonical JSON, so that equal recipes are equal files. :func:`recipe_hash` covers the
identity alone: measuring again does not make another recipe.

It holds the texts that it needs (:mod:`.recipe_sources`): the kernel is printed again from the file alone. Recipes of
earlier formats name their source where it was; :func:`Recipe.load` reads them, and :attr:`Recipe.written_as` tells.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError

from .recipe_sources import parsed

FORMAT = 3
"""3: with the texts of source and workload. 2: scripts name loops and arrays as they print; by 1, a name stood for all
that the source calls so."""

OLDEST = 1
"""The earliest format that is still read."""

_IDENTITY = ("kernel", "variant", "source_sha256", "script", "knobs", "target")


@dataclass(frozen=True)
class Recipe:
    """One regenerable kernel.

    ``source`` and ``workload`` are where those were (hints; identity is ``source_sha256``), ``variant`` the workload's
    template instantiation ('' for the default), ``output_sha256`` the hash of the printed code. ``verdicts`` are the
    verification ladder's results, ``timings`` maps scenario -> {sizes, script, knobs, seconds, low, high,
    baseline_seconds, ratio}, and ``others``, a list of the same for what else was timed there; ``heldout`` the same of
    scenarios that were not tuned for, ``versions`` maps ktc, compiler, driver and device to what they were.
    ``sources``: the texts, as :class:`~.recipe_sources.Sources` has them in JSON; empty in recipes of earlier formats.
    ``written_as``: the format of the file that it was read from.
    """

    kernel: str
    source_sha256: str
    script: str
    knobs: Mapping[str, int]
    target: str
    variant: str = ""
    source: str = ""
    workload: str = ""
    output_sha256: str = ""
    verdicts: Sequence[Mapping[str, Any]] = ()
    timings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    heldout: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sources: Mapping[str, Any] = field(default_factory=dict)
    written_as: int = field(default=FORMAT, compare=False)

    @property
    def hash(self) -> str:
        return recipe_hash(self)

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, two-space indent, one trailing newline, no NaN."""
        data = {k: v for k, v in asdict(self).items() if k != "written_as"}
        return canonical_json({"format": FORMAT, "hash": self.hash, **data}, indent=2) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the file whole or not at all.

        Raises:
            KtcError: E-WRITE (exit 3).
        """
        write_whole(path, self.to_json())

    @staticmethod
    def load(path: str | Path) -> Recipe:
        """Read a recipe and check its hash.

        Raises:
            KtcError: E-RECIPE-READ, E-RECIPE-FORMAT, E-RECIPE-VERSION or E-RECIPE-HASH (exit 2).
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as err:
            hint = "name a recipe.json, or the folder of a run of `ktc optimize`"
            raise KtcError(
                "E-RECIPE-READ", f"cannot read {path}: {err.strerror or err}", hint=hint, exit_code=2
            ) from None
        except ValueError as err:
            raise _bad(path, f"is not JSON: {err}") from None
        return parse(data, str(path))


def parse(data: Any, path: str = "recipe") -> Recipe:
    """A recipe from JSON data; ``path`` is for messages. Errors as :meth:`Recipe.load`."""
    if not isinstance(data, dict) or "format" not in data:
        raise _bad(path, "is not a recipe: it has no 'format'")
    if data["format"] not in range(OLDEST, FORMAT + 1):
        raise KtcError(
            "E-RECIPE-VERSION",
            f"{path} has format {data['format']!r}; this ktc reads {OLDEST} to {FORMAT}",
            hint="use the version of ktc that wrote it" + _written_by(data),
            exit_code=2,
        )
    known = {f.name: f for f in fields(Recipe) if f.name != "written_as"}
    missing = sorted(n for n in ("kernel", "source_sha256", "script", "knobs", "target") if n not in data)
    unknown = sorted(data.keys() - known.keys() - {"format", "hash"})
    if missing or unknown:
        what = f"lacks {', '.join(missing)}" if missing else f"has unknown entries: {', '.join(unknown)}"
        raise _bad(path, what)
    if not all(isinstance(data[n], str) for n in known if n in data and known[n].type == "str"):
        raise _bad(path, "has a number or a list where text belongs")
    knobs = data["knobs"]
    if not isinstance(knobs, dict) or not all(type(v) is int for v in knobs.values()):
        raise _bad(path, "has knobs that are not integers")
    recipe = Recipe(**{n: data[n] for n in known if n in data}, written_as=data["format"])
    _check_sources(recipe, path)
    if data.get("hash") not in (None, recipe.hash):
        raise KtcError(
            "E-RECIPE-HASH",
            f"{path} was changed by hand: its hash is {data['hash'][:12]}, its contents say {recipe.hash[:12]}",
            hint="remove the 'hash' entry if the change is wanted",
            exit_code=2,
        )
    return recipe


def _check_sources(recipe: Recipe, path: str) -> None:
    """That the texts of a recipe are readable, and its source the one that its hash is of."""
    if not recipe.sources:
        return
    try:
        found = parsed(recipe.sources)
    except ValueError as err:
        raise _bad(path, str(err)) from None
    if sha256(found.source_bytes) != recipe.source_sha256:
        raise KtcError(
            "E-RECIPE-HASH",
            f"{path} was changed by hand: the source in it is not the one of 'source_sha256'",
            hint="edit the source's file instead, and make a recipe of that: ktc optimize",
            exit_code=2,
        )


def recipe_hash(recipe: Recipe) -> str:
    """SHA-256 of the identity: what decides the bytes of the output."""
    identity = {n: getattr(recipe, n) for n in _IDENTITY}
    return sha256(canonical_json(identity | ({"sources": recipe.sources} if recipe.sources else {})))


def ktc_version() -> str:
    """The version of the installed package."""
    try:
        return version("ktc")
    except PackageNotFoundError:
        return "unknown"


def sha256(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def canonical_json(data: Any, *, indent: int | None = None) -> str:
    """JSON with one spelling per value: sorted keys, shortest round-trip floats; NaN and infinities become null."""
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(
        _plain(data), sort_keys=True, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
    )


def _plain(v: Any) -> Any:
    if isinstance(v, Mapping):
        return {str(k): _plain(x) for k, x in v.items()}
    if isinstance(v, list | tuple):
        return [_plain(x) for x in v]
    if isinstance(v, float):
        return v if math.isfinite(v) else None
    if v is None or isinstance(v, str | bool | int):
        return v
    if hasattr(v, "item"):  # a numpy scalar
        return _plain(v.item())
    raise TypeError(f"not JSON data: {type(v).__name__}")


def write_whole(path: str | Path, text: str) -> None:
    """Write ``text`` to ``path`` through a temporary file in the same folder: readers see the old file or the new one.

    Raises:
        KtcError: E-WRITE (exit 3); the old file, if any, is untouched.
    """
    path = Path(path)
    temporary = ""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="\n", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as f:
            temporary = f.name
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # temporary files are private; the recipe is an ordinary file
        os.replace(temporary, path)
        temporary = ""
    except OSError as err:
        why = err.strerror or str(err)
        raise KtcError("E-WRITE", f"cannot write {path}: {why}", hint="choose another place", exit_code=3) from None
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _written_by(data: Mapping[str, Any]) -> str:
    versions = data.get("versions")
    ktc = versions.get("ktc") if isinstance(versions, dict) else None
    return f" (ktc {ktc})" if ktc else ""


def _bad(path: str | Path, why: str) -> KtcError:
    return KtcError(
        "E-RECIPE-FORMAT", f"{path} {why}", hint="recipes are written by 'ktc optimize' and 'ktc tune'", exit_code=2
    )
