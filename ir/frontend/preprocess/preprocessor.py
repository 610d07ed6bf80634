"""Preprocessing with pcpp: macros and local includes.

System and library headers are never read from the machine: what kernels use of them is in ``ktc.ir.builtins``, so an
``#include <...>`` that is not found in an allowed folder is simply dropped. An ``#include "..."`` that is not found is
dropped too, but remembered, so that an unknown name later on can say why it may be unknown.
"""

from __future__ import annotations

import io
import os
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pcpp

from ktc.ir.diagnostics import InternalError, KtcError, Loc
from ktc.ir.frontend.dialects.dialect import CUDA, Dialect
from ktc.ir.frontend.input_limits import (
    MAX_EXPANDED_BYTES,
    MAX_INCLUDE_DEPTH,
    MAX_MACRO_GROWTH,
    MAX_MACRO_TOKENS,
    MAX_SOURCE_BYTES,
)
from ktc.ir.frontend.meaning.constants import NAMED

from .asked_headers import ASKED, with_answers
from .header_macros import macros_of, stand_in
from .if_conditions import BadCondition, condition_value
from .macro_expansion import Expander
from .pp_lines import grouped, has_other_side, pieces
from .pp_output import rendered
from .pp_tokens import Lexer, Token
from .source_text import Comments, read_source
from .switched_off import other_branches

DEVICE_HEADERS = re.compile(
    r"cuda(|_runtime|_runtime_api|_device_runtime_api|_fp4|_fp6|_fp8|_fp16|_bf16|_pipeline\w*|_awbarrier\w*|_profiler_api|"
    r"_occupancy|_\w+_interop|_(texture|surface)_types|_stdint|Typedefs|GL|EGL\w*|Profiler\w*)\.(h|hpp)|cudart_\w+\.h|"
    r"(cub|thrust|curand|cooperative_groups|mma)\w*\.(h|hpp|cuh)|"
    r"device_(functions|types|launch_parameters|atomic_functions|double_functions|host\w*)(_decls)?\.(h|hpp)|"
    r"vector_(types|functions)\.(h|hpp)|math_(functions|constants)\w*\.(h|hpp)|sm_\d\d_\w+\.(h|hpp)|"
    r"helper_(cuda|math|functions|string|timer|image|gl|multiprocess)\w*\.(h|hpp)"
)
"""The names of CUDA's own headers, and of those of its samples."""

DEVICE_FOLDERS = frozenset({"cub", "thrust", "cooperative_groups"})
"""Folders of CUDA's own headers, wherever a project keeps a copy of them."""

GLM = re.compile(r"(?P<glm>(.*/)?glm)/(\w+/)*\w+\.hpp")
"""Headers of GLM, which is written anew in ``ktc.ir.frontend.library``: a copy of its own is beyond the front-end."""

C_HEADERS = frozenset(
    f"{n}.h" for n in ("assert", "math", "stdio", "stdlib", "string", "float", "limits", "stdint", "time")
)


def is_library(header: str) -> bool:
    """Whether a header is one of CUDA's or the C library's; one with folders of its own is another's."""
    folders, name = os.path.split(header)
    if folders:
        return not DEVICE_FOLDERS.isdisjoint(folders.split("/")) or GLM.fullmatch(header) is not None
    return name in C_HEADERS or DEVICE_HEADERS.fullmatch(name) is not None


Finder: TypeAlias = Callable[[str, str], "str | None"]
"""From an include's text and the file it stands in to the folder it is relative to: a last resort."""


@dataclass
class Preprocessed:
    """``text`` has ``#line`` directives; ``missing`` are the project headers that were not read: not found, or, where
    ``outside`` has their folder, not in a folder that the source may include from.

    ``values`` are the object-like macros that are one integer (pragmas are not expanded by the preprocessor)."""

    text: str
    comments: Comments
    missing: list[str] = field(default_factory=list)
    outside: dict[str, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    """Headers in angle brackets, or called as those of a compiler, that no folder has: most are a compiler's own."""
    values: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    defined: frozenset[str] = frozenset()
    """The macros that are defined at the end."""
    passed_over: list[Loc] = field(default_factory=list)
    """Where headers that were read have an ``#error`` that holds as long as others are missing."""

    @property
    def why_missing(self) -> str:
        """The headers that were not read, as the end of a sentence; '' if there are none."""
        if not self.missing:
            return ""
        first = [h for h in self.missing if h in self.outside][:1]
        if first:
            folder = self.outside[first[0]]
            return f"; {first[0]} is outside the source's folder, and was not read (-I {folder} allows it)"
        return f"; {', '.join(self.missing[:3])} was not found"

    def why_unknown(self, qualifier: Iterable[str]) -> str:
        """``why_missing`` for a name behind ``qualifier``: where no header is missing, those in angle brackets that
        stand in a folder that one of its namespaces is called as."""
        theirs = [h for h in self.dropped if not set(qualifier).isdisjoint(h.split("/")[:-1])]
        return self.why_missing or (f"; <{'>, <'.join(theirs[:3])}> was not found" if theirs else "")


NOWHERE = "/<stand-in>/"
"""The folder of texts that take the place of headers."""

USUAL_FOLDERS = ("include", "inc", "includes", "src", "common", "Common", "")
"""Where a project keeps headers, in a folder above a source."""

NEAR_ABOVE, FAR_ABOVE = 2, 8
"""How many folders up a header may be that is named alone, and one that is named with folders of its own: nobody else
has ``src/project/kernels/reduce.cuh``."""


def _usual_place(folder: str, include: str) -> str:
    """The folder, near the source's ``folder``, that a build would name for ``include``; '' if none has it."""
    above = [os.path.abspath(folder)]
    for _ in range(FAR_ABOVE if os.path.dirname(include) else NEAR_ABOVE):
        above.append(os.path.dirname(above[-1]))
    places = (os.path.join(up, sub) for up in above for sub in USUAL_FOLDERS)
    return next((os.path.normpath(p) for p in places if os.path.isfile(os.path.join(p, include))), "")


def is_below(path: str, root: str) -> bool:
    """Whether ``path`` is ``root`` or below it, both without symbolic links."""
    return os.path.commonpath([path, root]) == root


class _Pcpp(pcpp.Preprocessor):
    def __init__(self, roots: tuple[str, ...], out: Preprocessed, find: Finder | None) -> None:
        self._uneven = False  # a macro's text has brackets that do not match
        super().__init__(Lexer())
        self._find = find
        self._found: set[str] = set()
        self._roots = roots
        self._out = out
        self.bytes_read = 0
        self._nested = 0
        self.errors: list[tuple[str, Loc]] = []
        self.evaluator = self._evaluate
        self.expander = Expander(self.macros, self._spend, lambda t, what: self.on_error(t.source, t.lineno, what))

    def _evaluate(self, tokens, functions=None, identifiers=None):
        """Instead of pcpp's evaluator, which knows neither ``ULL`` nor C++'s words and digit separators."""
        try:
            return _Value(condition_value("".join(t.value for t in tokens), self.on_unknown_macro_in_expr))
        except BadCondition as e:
            self.on_error(tokens[0].source, tokens[0].lineno, str(e))
            return _Value(0)

    def evalexpr(self, tokens):
        return super().evalexpr(with_answers(tokens, self._is_there, self.t_INTEGER))

    def _is_there(self, header: str) -> bool:
        """Whether ``header``, which stands in quotation marks, lies where the source may include it from."""
        folders = (os.path.dirname(os.path.abspath(self.source or "")), *self.path)
        there = (os.path.realpath(os.path.join(d, header)) for d in folders)
        return any(os.path.isfile(p) and any(is_below(p, root) for root in self._roots) for p in there)

    def group_lines(self, input, abssource):
        return grouped(input, abssource, self.macros.keys())

    def define(self, tokens):
        if isinstance(tokens, str):
            tokens = self.tokenize(tokens)
        super().define(tokens)
        values = [t.value for t in tokens]
        self._uneven = self._uneven or values.count("(") != values.count(")")

    def expand_macros(self, tokens, expanding_from=()):
        """Instead of pcpp's, which takes time for all tokens with each expansion, and forgets in the arguments of
        other macros which one it is expanding: piece by piece, and as GCC does."""
        out: list[Token] = []
        for piece, has_macro in pieces(tokens, self.macros.keys(), self._uneven):
            out.extend(self.expander.expanded(piece) if has_macro else piece)
        return out

    def _spend(self, tokens: int, macro: str) -> None:
        """What macros expand to has a budget."""
        self._nested += tokens
        if self._nested > MAX_MACRO_TOKENS + self.bytes_read:
            raise self.expansion_error("macro expansion grows without limit")

    def expansion_error(self, what: str) -> KtcError:
        """An error about the macro that was expanded last, where the text calls it."""
        macro = f" in '{self.expander.latest}'" if self.expander.latest else ""
        source = str(self.source or "")
        text = self._out.sources.get(source) or self._out.sources.get(os.path.abspath(source))
        return KtcError("E-PP-EXPANSION", what + macro, Loc(source, max(1, self.expander.line)), source=text)

    def on_error(self, file, line, msg):
        self.errors.append((msg, Loc(file or self.source or "", line)))
        self.return_code += 1

    def on_include_not_found(self, is_malformed, is_system_include, curdir, includepath):
        folder = None if self._find is None or is_malformed else self._find(includepath, self.source or "")
        path = os.path.abspath(os.path.join(folder or "", includepath))
        if folder is not None and path not in self._found:
            self._found.add(path)  # not offered again unless it could be opened
            self._roots = tuple(dict.fromkeys((*self._roots, os.path.realpath(os.path.dirname(path)))))
            return folder
        if not is_malformed and stand_in(includepath) is not None:
            return NOWHERE
        if not is_system_include and not is_library(includepath):
            if includepath not in self._out.missing:
                self._out.missing.append(includepath)
            there = os.path.abspath(os.path.join(curdir, includepath))
            folder = os.path.dirname(there) if os.path.isfile(there) else _usual_place(curdir, includepath)
            if folder:
                self._out.outside[includepath] = folder
        else:
            self._out.dropped.append(includepath)
        for name, value in macros_of(includepath).items():
            if name.partition("(")[0] not in self.macros:
                self.define(f"{name} {value}")
        raise pcpp.OutputDirective(pcpp.Action.IgnoreAndRemove)

    def on_file_open(self, is_system_include, includepath):
        if includepath.startswith(NOWHERE):
            if (instead := stand_in(includepath.removeprefix(NOWHERE))) is None:
                raise FileNotFoundError(includepath)
            return io.StringIO(instead)
        if (own := GLM.fullmatch(includepath)) and os.path.isfile(os.path.join(own["glm"], "glm.hpp")):
            return io.StringIO("")
        real = os.path.realpath(includepath)
        allowed = any(is_below(real, root) for root in self._roots)
        if not allowed or not os.path.isfile(real):
            raise FileNotFoundError(includepath)
        self._found.discard(includepath)
        if self.include_depth > MAX_INCLUDE_DEPTH:
            raise KtcError("E-PP-DEPTH", f"includes nest deeper than {MAX_INCLUDE_DEPTH}", Loc(includepath, 1))
        text = read_source(includepath)
        self.bytes_read += len(text)
        if self.bytes_read > MAX_SOURCE_BYTES:
            raise KtcError("E-PP-SIZE", f"included files exceed {MAX_SOURCE_BYTES >> 20} MiB", Loc(includepath, 1))
        self._out.comments.scan(text, os.path.abspath(includepath))
        self._out.sources[os.path.abspath(includepath)] = text
        if has_other_side(text):
            self.auto_pragma_once_enabled = False  # pcpp would take it for one to be read once
        return io.StringIO(text)

    def on_unknown_macro_in_expr(self, ident):
        """The limits of C's headers are macros to ``#if``; ``true`` is a word of C++; anything else is 0."""
        known = NAMED.get(ident)
        return int(known.value) if known is not None and isinstance(known.value, int) else int(ident == "true")

    def on_directive_unknown(self, directive, toks, ifpassthru, precedingtoks):
        """Only called where the conditions hold, unlike ``on_directive_handle``."""
        if directive.value == "error":
            text = "".join(t.value for t in toks).strip()
            if self.include_depth > 1 and self._lacks_headers:
                self._out.passed_over.append(Loc(directive.source, directive.lineno))
            else:
                self.on_error(directive.source, directive.lineno, f"#error {text}")
        if directive.value in ("error", "warning"):
            return True
        return None

    @property
    def _lacks_headers(self) -> bool:
        """Whether some header was not read that is no compiler's own: it may define what conditions ask for."""
        return bool(self._out.missing) or any("/" in header for header in self._out.dropped)

    def on_directive_handle(self, directive, toks, ifpassthru, precedingtoks):
        if directive.value == "pragma" and toks and toks[0].value != "once":
            raise pcpp.OutputDirective(pcpp.Action.IgnoreAndPassThrough)
        return super().on_directive_handle(directive, toks, ifpassthru, precedingtoks)


@dataclass(frozen=True)
class _Value:
    """A result in the form in which pcpp asks for it."""

    number: int

    def value(self) -> int:
        return self.number


def _in_pcpp(raised: BaseException) -> bool:
    """Whether pcpp itself raised this: it does on directives that it cannot read."""
    frames = traceback.extract_tb(raised.__traceback__)
    return bool(frames) and os.path.basename(os.path.dirname(frames[-1].filename)) in ("pcpp", "ply")


def preprocess(
    text: str,
    file: str,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
    find: Finder | None = None,
    dialect: Dialect = CUDA,
) -> Preprocessed:
    """Expand macros and allowed includes of ``text``, which was read from ``file``.

    Raises:
        KtcError: E-PP-DIRECTIVE (a malformed directive or ``#error``), E-PP-DEPTH, E-PP-SIZE, E-PP-EXPANSION.
    """
    here = os.path.dirname(os.path.abspath(file))
    out = Preprocessed("", Comments())
    out.comments.scan(text, file)
    out.sources[file] = text
    roots = tuple(os.path.realpath(d) for d in (here, *include_dirs))
    pp = _Pcpp(roots, out, find)
    pp.bytes_read = len(text)
    for name, value in {**dialect.macros, **(defines or {})}.items():
        pp.define(f"{name} {value}")
    pp.define(f"{ASKED}(x) 0")
    for d in (here, *include_dirs):
        pp.add_path(d)
    pp.rewrite_paths = [(f"^{re.escape(os.path.abspath(file))}$", lambda m: file)]  # report the path as it was given

    def limit() -> int:
        return min(MAX_MACRO_GROWTH * pp.bytes_read + (1 << 20), MAX_EXPANDED_BYTES)

    try:
        pp.parse(text, file)
        out.text = rendered(pp.parser, limit, file)
    except (IndexError, ValueError, TypeError, AttributeError, AssertionError) as raised:
        place = Loc(file, max(1, pp.expander.line))
        if not _in_pcpp(raised):
            raise InternalError(raised, place) from raised
        raise KtcError("E-PP-DIRECTIVE", "a malformed preprocessor directive", place, source=text) from None
    except RecursionError:
        raise pp.expansion_error("macro expansion nests too deep") from None
    if pp.errors:
        message, loc = pp.errors[0]
        read = out.sources.get(loc.file) or out.sources.get(os.path.abspath(loc.file), "")
        names = other_branches(read, loc.line) if message.startswith("#error") else []
        branch = " or ".join(f"-D {n}" for n in names) or "-D NAME=VALUE"
        hint = f"fix the directive, or choose another branch with {branch}"
        if message.startswith("#error"):
            written = "a build's compile_commands.json is read (CMake: -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)"
            hint = f"{written}; without one, {hint}"
        raise KtcError("E-PP-DIRECTIVE", message, loc, hint=hint)
    out.defined = frozenset(pp.macros)
    for name, macro in pp.macros.items():
        if macro.arglist is None and len(macro.value) == 1 and macro.value[0].value.isdigit():
            out.values[name] = macro.value[0].value
    return out
