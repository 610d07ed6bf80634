"""How long the host makes a kernel's buffers: evidence that a kernel reads past the end of one.

What a kernel touches says how long its buffers would have to be; what the host function that launches it allocates says
how long they are. Read from the text of that function: cudaMalloc and its relatives, new, std::vector, std::array and
tensors, in the names that the launch passes on. Anything less plain (two launches, a pointer moved on, a length that
is no expression of what is passed) is no evidence. Extents of a tensor that the function asserts are evidence only
where no run of the kernel reaches it: the tensor may be a part of a larger one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.workload.reference import names
from ktc.ir.workload.size_expressions import evaluate

from ..model import Draft
from ..probe import Seen
from ..shapes import Extent, fit

BYTES = {
    "char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "short": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2,
    "int16_t": 2, "uint16_t": 2, "int": 4, "unsigned": 4, "unsigned int": 4, "float": 4, "int32_t": 4, "uint32_t": 4,
    "long": 8, "double": 8, "size_t": 8, "int64_t": 8, "uint64_t": 8, "long long": 8, "float2": 8, "float4": 16,
    "int4": 16,
}  # fmt: skip
"""sizeof of the types that buffers are made of."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CAST = re.compile(r"\(\s*(?:std::)?(?:size_t|u?int(?:32|64)?(?:_t)?|unsigned(?: int| long)?|long(?: long)?)\s*\)")
_STATIC_CAST = re.compile(r"static_cast<[^<>]*>\s*(?=\()")
_SIZEOF = re.compile(r"sizeof\s*\(\s*([^()]+?)\s*\)|sizeof\s+\*?\s*\w+")
_PASSED = re.compile(
    r"(?:thrust::raw_pointer_cast\()?&?(\w+)(?:\[0\]|\.(?:data|get|data_ptr|mutable_data_ptr|const_data_ptr)"
    r"(?:<[^<>]*>)?\(\)(?:\.get\(\))?)?\)?"
)
"""An argument that is a buffer from its beginning on."""

_IN_BYTES = re.compile(r"\b(?:cuda|hip)Malloc(?:Managed|Async|Host)?\s*\(\s*(?:\([^()]*\*\s*\*\s*\)\s*)?&\s*(\w+)\s*,")
_MALLOC = re.compile(r"\b(\w+)\s*=\s*(?:\([^()]*\)\s*)?malloc\s*\(")
_NEW = re.compile(r"\b(\w+)\s*=\s*new\s+[\w:]+(?:\s+\w+)?\s*\[")
_VECTOR = re.compile(r"\b(?:vector|device_vector|host_vector)\s*<[^<>]*>\s*(\w+)\s*\(")
_ARRAY = re.compile(r"\barray\s*<\s*[\w:]+\s*,\s*([^<>]+)>\s*(\w+)")
_TENSOR = re.compile(r"\b(\w+)\s*=\s*(?:torch|at)::(?:empty|zeros|ones|randn|rand)\s*\(\s*\{([^{}]*)\}")


_POINTER_CAST = re.compile(r"(?:static|reinterpret|const)_cast<[^()]*>\s*\((.*)\)", re.DOTALL)
_EQUAL_SIZES = re.compile(r"_EQ\s*\(\s*(?:(\w+)\s*,\s*(\w+)\.size\((\d)\)|(\w+)\.size\((\d)\)\s*,\s*(\w+))\s*\)")
"""``CHECK_EQ(n, x.size(0))``, either way round."""


@dataclass(frozen=True)
class Allocation:
    """``buffer`` (the host's name) has ``length`` elements, or bytes, as an expression in the host's names; or so the
    host asserts."""

    buffer: str
    length: str
    in_bytes: bool
    line: int
    asserted: bool = False


def check_allocations(d: Draft, seen: list[Seen]) -> None:
    """Give buffers that the kernel reads past the end of the length that the host allocates, and doubt them."""
    made = _lengths(d.kernel)
    for name, (allocation, text) in made.items():
        drafted = d.shapes.get(name)
        lengths = [(s.sizes, n) for s in seen if (n := _value(d, text, s.sizes)) is not None and n > 0]
        if not lengths or len(lengths) < len(seen):
            continue
        touched = any(s.extent(name) for s in seen)
        beyond = all(s.extent(name) > n for s, (_, n) in zip(seen, lengths))
        if touched and (allocation.asserted or (not beyond and drafted is not None and drafted.plausible)):
            continue
        shape = fit(lengths, d.names, d.roles.quotients)
        if shape is None or not shape.exact:
            continue
        d.shapes[name] = shape
        if beyond:
            reached, held = _reached(name, drafted, seen), " * ".join(shape.shape)
            d.doubts.append(
                f"{name}: the kernel reaches {reached}, the host allocates {held} (line {allocation.line}): "
                "it would read or write past the end"
            )


def _reached(name: str, drafted: Extent | None, seen: list[Seen]) -> str:
    """How far the kernel goes into ``name``: as an expression where that holds in all runs, else as in the first."""
    if drafted is None or any(drafted.value(s.sizes) != s.extent(name) for s in seen):
        sizes = ", ".join(f"{n} = {v}" for n, v in seen[0].sizes.items())
        return f"{seen[0].extent(name)} elements{f' (at {sizes})' if sizes else ''}"
    shape = drafted.shape[0] if len(drafted.shape) == 1 else " * ".join(f"({x})" for x in drafted.shape)
    return f"{shape} elements"


def _lengths(k: Kernel) -> dict[str, tuple[Allocation, str]]:
    """For each buffer of ``k`` that one launch passes, what the host allocates for it: elements, in ``k``'s names."""
    text = _host_text(k)
    launches = list(re.finditer(rf"\b{re.escape(k.name)}\s*(?:<[^<>;]*>)?\s*<<<", text))
    if len(launches) != 1:
        return {}
    at = launches[0].start()
    function, start = _function_around(text, at)
    end = text.find(">>>", at)
    args = _split(_enclosed(text, text.find("(", end), "()"))
    params = [p for p in k.params if not p.host and not p.init and p.scratch is None]
    if end < 0 or len(args) != len(params):
        return {}
    scalars = [(arg, p.sym.name) for arg, p in zip(args, params) if not isinstance(p.sym.type, Ptr)]
    passed = {arg: name for arg, name in scalars if arg.isidentifier() and _set_once(function, arg)}
    found: dict[str, tuple[Allocation, str]] = {}
    allocations = list(_allocations(function, text.count("\n", 0, start) + 1))
    for arg, p in zip(args, params):
        while (cast := _POINTER_CAST.fullmatch(arg)) is not None:
            arg = cast[1].strip()
        m = _PASSED.fullmatch(arg)
        own = [a for a in allocations if m is not None and a.buffer == m[1]]
        own = [a for a in own if not a.asserted] or own
        if not isinstance(p.sym.type, Ptr) or p.rows or len(own) != 1:
            continue
        elem = max(1, scalar_of(p.sym.type).bits // 8)
        length = _in_names((function, text), own[0].length, passed, elem)
        if length is not None:
            found[p.sym.name] = own[0], f"({length}) / {elem}" if own[0].in_bytes else length
    return found


def _set_once(function: str, name: str) -> bool:
    """Whether a variable of the host has one value throughout."""
    changes = rf"\b{name}\s*(?:[-+*/%|&^]|<<|>>)?=(?!=)|\b{name}\s*(?:\+\+|--)|(?:\+\+|--)\s*{name}\b"
    return len(re.findall(changes, function)) <= 1


def _host_text(k: Kernel) -> str:
    """The source without comments, lines kept; '' if it is not at hand."""
    try:
        text = Path(k.loc.file).read_text(encoding="utf-8", errors="replace") if k.loc is not None else ""
    except (OSError, ValueError):
        return ""
    return _COMMENT.sub(lambda m: "\n" * m[0].count("\n") or " ", text)


def _function_around(text: str, at: int) -> tuple[str, int]:
    """The outermost braces around ``at`` that are no namespace's, with what is in them, and where they begin."""
    depth, opened = 0, [0]
    for m in re.finditer(r"[{}]", text[:at]):
        depth += 1 if m[0] == "{" else -1
        if m[0] == "{":
            opened.append(m.start())
        elif len(opened) > 1:
            opened.pop()
    outer = [o for o in opened[1:] if not re.search(r'(?:namespace[\w\s:]*|extern\s*"C")\s*$', text[:o])]
    start = outer[0] if outer else 0
    return _enclosed(text, start, "{}") if outer else text, start


def _enclosed(text: str, at: int, pair: str) -> str:
    """What is between the bracket at ``at`` and the one that closes it."""
    depth = 0
    for i in range(max(at, 0), len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return text[at + 1 : i]
    return ""


def _split(text: str) -> list[str]:
    """The arguments of a call."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


def _allocations(function: str, line: int) -> Iterator[Allocation]:
    def at(m: re.Match) -> int:
        return line + function.count("\n", 0, m.start())

    for m in _IN_BYTES.finditer(function):
        inside = _split(_enclosed(function, function.index("(", m.start()), "()"))
        yield Allocation(m[1], inside[1] if len(inside) > 1 else "", True, at(m))
    for m in _MALLOC.finditer(function):
        yield Allocation(m[1], _enclosed(function, m.end() - 1, "()"), True, at(m))
    for m in _NEW.finditer(function):
        yield Allocation(m[1], _enclosed(function, m.end() - 1, "[]"), False, at(m))
    for m in _VECTOR.finditer(function):
        yield Allocation(m[1], (_split(_enclosed(function, m.end() - 1, "()")) or [""])[0], False, at(m))
    for m in _ARRAY.finditer(function):
        yield Allocation(m[2], m[1], False, at(m))
    for m in _TENSOR.finditer(function):
        yield Allocation(m[1], " * ".join(f"({x})" for x in _split(m[2])), False, at(m))
    asserted: dict[str, dict[int, tuple[str, int]]] = {}
    for m in _EQUAL_SIZES.finditer(function):
        number, buffer, axis = (m[1], m[2], m[3]) if m[2] else (m[6], m[4], m[5])
        asserted.setdefault(buffer, {}).setdefault(int(axis), (number, at(m)))
    for buffer, extents in asserted.items():
        if {*extents} == {*range(len(extents))} and len(extents) > 1:
            yield Allocation(
                buffer, " * ".join(extents[i][0] for i in sorted(extents)), False, extents[0][1], asserted=True
            )


def _in_names(texts: Sequence[str], length: str, passed: Mapping[str, str], elem: int) -> str | None:
    """``length`` in the kernel's names; None if it is no integer expression of what is passed to it and of constants.

    ``texts``: the function, then the file around it, in which what a name stands for is looked up.
    """
    for _ in range(4):
        length = _SIZEOF.sub(lambda m: str(BYTES.get(m[1] or "", elem if not m[1] or "*" in m[1] else 0)), length)
        length = _STATIC_CAST.sub("", _CAST.sub("", length))  # the parentheses of sizeof(int) are none
        try:
            unknown = names(length) - set(passed)
        except KtcError:
            return None
        if not unknown:
            return re.sub(r"[A-Za-z_]\w*", lambda m: passed.get(m[0], m[0]), length)
        for name in unknown:
            value = _given_once(texts, name)
            if value is None:
                return None
            length = re.sub(rf"\b{name}\b", f"({value})".replace("\\", ""), length)
    return None


def _given_once(texts: Sequence[str], name: str) -> str | None:
    """What ``name`` is given in the function or, as a constant, in the file; None if that is not one thing."""
    function, text = texts
    given = re.findall(rf"\b{name}\s*=\s*([^;,=][^;,]*)[;,]", function)
    if given:
        return given[0] if len(given) == 1 and _set_once(function, name) else None
    if re.search(rf"\b{name}\s*[;,)]", function) and re.search(rf"\w[\s*&]+{name}\s*[;,)=]", function):
        return None  # a variable of the function's own
    constants = re.findall(rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+(\S[^\n]*)$", text, re.MULTILINE)
    constants += re.findall(rf"\bconst(?:expr)?\b[\w\s:]*\b{name}\s*=\s*([^;,=][^;,]*)[;,]", text)
    return constants[0].strip() if len(constants) == 1 else None


def _value(d: Draft, text: str, sizes: Mapping[str, int]) -> int | None:
    """``text``, in the kernel's names, at ``sizes``."""
    try:
        known = dict(sizes)
        for name in names(text) - set(sizes):
            tied = d.tied(name)
            known[name] = tied if isinstance(tied, int) else evaluate(tied or name, sizes)
        return evaluate(text, known)
    except KtcError:
        return None
