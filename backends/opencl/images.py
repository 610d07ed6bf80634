"""CUDA's textures and surfaces as OpenCL images: which parameter becomes which image, and how each access reads.

A texture object's parameter becomes an image and a sampler; what a CUDA texture descriptor says (filter, addressing,
normalised coordinates) is what the host puts into the sampler. A surface's becomes an image without a sampler; its x
counts bytes there and texels here. Images are no values in OpenCL: an object that is chosen at run time is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ktc.backends.c_family.piece import POSTFIX, Piece
from ktc.backends.system_calls import MIPMAP_LEVELS, SURFACES, texture_object
from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.diagnostics import Loc
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Call, Decl, Expr, Stmt, Sym, Var
from ktc.ir.types import F16, F32, I32, U32, VOID, Scalar, Type, Vec, scalar_of
from ktc.ir.walk import map_body, stmt_exprs, substitute, walk, walk_expr

from .opencl_collectives import OpenCLCollectives

FETCHES = {
    "tex1Dfetch": ("image1d_buffer_t", "{0}"), "tex1D": ("image1d_t", "{0}"),
    "tex2D": ("image2d_t", "(float2)({0}, {1})"),
    "tex3D": ("image3d_t", "(float4)({0}, {1}, {2}, 0.0f)"), "tex1DLayered": ("image1d_array_t", "(float2)({0}, {1})"),
    "tex2DLayered": ("image2d_array_t", "(float4)({0}, {1}, {2}, 0.0f)"),
}  # fmt: skip
"""The image and the coordinate of each fetch that OpenCL has; a layer's number is rounded to the nearest there too."""


_SURFACE = {
    "1D": ("image1d_t", "int", "{0}"), "2D": ("image2d_t", "int2", "(int2)({0}, {1})"),
    "3D": ("image3d_t", "int4", "(int4)({0}, {1}, {2}, 0)"),
    "1DLayered": ("image1d_array_t", "int2", "(int2)({0}, {1})"),
    "2DLayered": ("image2d_array_t", "int4", "(int4)({0}, {1}, {2}, 0)"),
}  # fmt: skip
_EXTENT = ("get_image_width(image)", "get_image_height(image)", "get_image_depth(image)")


@dataclass(frozen=True)
class Image:
    """What a texture or surface parameter becomes."""

    type: str
    access: str
    sampled: bool

    def declaration(self, name: str) -> str:
        sampler = f", sampler_t {name}_sampler" if self.sampled else ""
        return f"{self.access} {self.type} {name}{sampler}"


Refuse = Callable[[str, str, "Loc | None"], None]
"""(message, hint, place): does not return."""


def images_of(kernel: Kernel, read_write: bool, refuse: Refuse) -> dict[Sym, Image]:
    """The image of each parameter that is used as a texture or surface object; ``read_write``: one may be both."""
    params = {p.sym for p in kernel.params}
    uses: dict[Sym, list[str]] = {}
    objects: set[int] = set()
    for s, e in _expressions(kernel):
        if not isinstance(e, Call) or (place := texture_object(e.fn)) is None:
            continue
        x = e.args[place[1]]
        if not isinstance(x, Var) or x.sym not in params:
            refuse(f"'{e.fn}' of an object that is not one parameter", "images cannot be chosen at run time", s.loc)
            continue
        uses.setdefault(x.sym, []).append(e.fn)
        objects.add(id(x))
    for s, e in _expressions(kernel):
        if isinstance(e, Var) and e.sym in uses and id(e) not in objects:
            refuse(f"the object '{e.sym.name}' is used as a number", "an image is no value in OpenCL", s.loc)
    return {sym: _image(sym, set(fns), read_write, refuse, kernel.loc) for sym, fns in uses.items()}


def forward_objects(kernel: Kernel) -> Kernel:
    """``kernel`` without the variables that only hold a texture or surface parameter: images have no copies."""
    named = definitions(kernel.body)
    whole = {sym: expand(Var(sym), named) for sym in named}
    objects = {e.args[place[1]] for _, e in _expressions(kernel)
               if isinstance(e, Call) and (place := texture_object(e.fn)) is not None}  # fmt: skip
    params = {p.sym for p in kernel.params} & {x.sym for o in objects if isinstance(x := expand(o, named), Var)}
    env = {sym: x for sym, x in whole.items() if isinstance(x, Var) and x.sym in params}
    body = map_body(kernel.body, lambda s: None if isinstance(s, Decl) and s.sym in env else s) if env else kernel.body
    return kernel.with_(body=substitute(body, env)) if env else kernel


def _expressions(kernel: Kernel) -> Iterable[tuple[Stmt, Expr]]:
    for s in walk(kernel.body):
        for top in stmt_exprs(s):
            for e in walk_expr(top):
                yield s, e  # type: ignore[misc]


def _image(sym: Sym, fns: set[str], read_write: bool, refuse: Refuse, loc: Loc | None) -> Image:
    kinds = {
        _SURFACE[_shape(fn)][0] if fn.startswith("surf") else FETCHES.get(MIPMAP_LEVELS.get(fn, fn), ("",))[0]
        for fn in fns
    }
    if kinds == {""}:
        return Image("", "read_only", True)  # refused where it stands
    if len(kinds) > 1:
        refuse(f"'{sym.name}' is used by {', '.join(sorted(fns))}, which take different images", "", loc)
    (kind,) = kinds
    if not any(fn.startswith("surf") for fn in fns):
        return Image(kind, "read_only", kind != "image1d_buffer_t")
    reads, writes = any("read" in fn for fn in fns), any("write" in fn for fn in fns)
    if reads and writes and not read_write:
        refuse(
            f"the surface '{sym.name}' is read and written", "OpenCL C 1.2 has no such image: use a profile of 3.0", loc
        )
    return Image(kind, "read_write" if reads and writes else "read_only" if reads else "write_only", False)


def _shape(fn: str) -> str:
    return next(s for s in sorted(SURFACES, key=len, reverse=True) if fn.startswith(f"surf{s}"))


def letter(t: Type) -> str:
    """Which of read_imagef, read_imagei, read_imageui a texel of type ``t`` takes; '' for none."""
    s = scalar_of(t)
    if s in (F32, F16):
        return "f"
    return "" if s.bits > 32 or s.is_float or s.kind not in ("int", "uint") else "i" if s.is_signed else "ui"


def lanes(t: Type) -> int | None:
    """Lanes of a texel: 1, 2 or 4."""
    n = 1 if isinstance(t, Scalar) else t.n if isinstance(t, Vec) else None
    return n if n in (1, 2, 4) else None


def fetch(fn: str, args: list[str], t: Type) -> tuple[str, str]:
    """(the text that reads four lanes, the helper it needs) for a texture fetch; args[0] is the image's name."""
    image, *at = args
    call = f"read_image{letter(t)}"
    if fn == "tex1Dfetch":
        helper = f"fetch_{letter(t)}"
        return f"{helper}({image}, {at[0]})", helper
    return f"{call}({image}, {image}_sampler, {FETCHES[MIPMAP_LEVELS.get(fn, fn)][1].format(*at)})", ""


def fetch_helper(name: str) -> str:
    """``tex1Dfetch``: outside of linear memory it gives 0, where OpenCL leaves the value open."""
    kind = name.removeprefix("fetch_")
    four = {"f": "float4", "i": "int4", "ui": "uint4"}[kind]
    return (
        f"static inline {four} {name}(read_only image1d_buffer_t image, int i) {{\n"
        f"  return i >= 0 && i < get_image_width(image) ? read_image{kind}(image, i) : ({four})(0);\n}}"
    )


@dataclass(frozen=True)
class SurfaceAccess:
    """One surface function on an image: ``access`` is the parameter's, ``mode`` '' (trap), clamp or zero."""

    fn: str
    access: str
    letter: str

    @property
    def shape(self) -> str:
        return _shape(self.fn)

    @property
    def mode(self) -> str:
        return self.fn.partition("_")[2]

    @property
    def name(self) -> str:
        """The helper's name."""
        return f"{self.fn}_{self.letter}" + ("_rw" if self.access == "read_write" else "")

    def coordinate(self, at: list[str]) -> str:
        return _SURFACE[self.shape][2].format(*at)

    def helper(self) -> str:
        """A function (image, coordinate[, texel]) that does what CUDA's boundary mode says."""
        image, coord, _ = _SURFACE[self.shape]
        four = {"f": "float4", "i": "int4", "ui": "uint4"}[self.letter]
        axes = [("at" if coord == "int" else f"at.{'xyz'[i]}") for i in range(SURFACES[self.shape])]
        layers = "(int)get_image_array_size(image)"
        extents = [f"(int){_EXTENT[i]}" for i in range(len(axes))]
        if self.shape.endswith("Layered"):
            extents[-1] = layers
        inside = " &&\n      ".join(f"{a} >= 0 && {a} < {n}" for a, n in zip(axes, extents))
        head = f"({self.access} {image} image, {coord} at"
        body = [f"  {a} = clamp({a}, 0, {n} - 1);" for a, n in zip(axes, extents)] if self.mode == "clamp" else []
        if "read" in self.fn:
            read = f"read_image{self.letter}(image, at)"
            body.append(f"  return {inside} ? {read} : ({four})(0);" if self.mode == "zero" else f"  return {read};")
            return "\n".join([f"static inline {four} {self.name}{head}) {{", *body, "}"])
        write = f"write_image{self.letter}(image, at, texel);"
        body.append(f"  if ({inside}) {write}" if self.mode == "zero" else f"  {write}")
        if self.access == "read_write":
            body.append("  atomic_work_item_fence(CLK_IMAGE_MEM_FENCE, memory_order_acq_rel, memory_scope_work_item);")
        return "\n".join([f"static inline void {self.name}{head}, {four} texel) {{", *body, "}"])


class ImageCalls(OpenCLCollectives):
    """The part of the OpenCL dialect that turns fetches and surface accesses into reads and writes of images."""

    images: Mapping[Sym, Image]

    def find_images(self, kernel: Kernel) -> Kernel:
        """Decide what the texture and surface parameters become. Raises KtcError E-BACKEND-IMAGE."""
        kernel = forward_objects(kernel)

        def refuse(message: str, hint: str, loc: Loc | None) -> None:
            self.loc = loc or self.loc
            self.refuse("IMAGE", message, hint)

        self.images = images_of(kernel, self.profile.device_fence and self.profile.shuffle != "ptx", refuse)
        if any(i.sampled for i in self.images.values()):
            self.reserved = self.reserved | {f"{sym.name}_sampler" for sym in self.images}
        if any(i.type == "image3d_t" and i.access != "read_only" for i in self.images.values()):
            self.generated["image3d"] = "#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable"
        return kernel

    def image_call(self, fn: str, args: Sequence[Piece], ty: Type) -> Piece:
        """A texture fetch, a surface read or a surface write."""
        writes = fn.startswith("surf") and "write" in fn
        t = args[0].ctype if writes else ty
        kind, width = letter(t), lanes(t)
        if fn.startswith("tex") and MIPMAP_LEVELS.get(fn, fn) not in FETCHES:
            self.refuse("IMAGE", f"'{fn}' has no counterpart", "OpenCL C has neither cube maps nor gathers")
        if fn in MIPMAP_LEVELS and not re.fullmatch(r"0(\.0*)?f?", args[-1].text):
            self.refuse("IMAGE", f"'{fn}' of a level that is not 0", "OpenCL C has no mipmaps without an extension")
        if not kind or width is None:
            self.refuse("IMAGE", f"a texel of type {self.type_name(t)}", "use 1, 2 or 4 numbers of at most 32 bits")
        if fn.startswith("tex"):
            four, helper = fetch(fn, [a.text for a in args], t)
            if helper:
                self.generated[helper] = fetch_helper(helper)
            return self._texel(four, t, kind, width)
        return self._surface(fn, args, t, kind, width)

    def _surface(self, fn: str, args: Sequence[Piece], t: Type, kind: str, width: int) -> Piece:
        writes = "write" in fn
        image, x, *rest = args[1:] if writes else args
        named = {self.exprs.text(Var(sym)): i for sym, i in self.images.items()}
        access = SurfaceAccess(fn, named[image.text].access, kind)
        self.generated[access.name] = access.helper()
        size = scalar_of(t).bytes * width
        at = access.coordinate([x.text if size == 1 else f"{x.at(MULTIPLICATIVE)} / {size}", *(a.text for a in rest)])
        if not writes:
            return self._texel(f"{access.name}({image.text}, {at})", t, kind, width)
        return Piece(f"{access.name}({image.text}, {at}, {self._four(args[0], t, kind, width)})", POSTFIX, VOID)

    def _texel(self, four: str, t: Type, kind: str, width: int) -> Piece:
        """Lanes of the float4, int4 or uint4 that an image gives, in the program's own type."""
        s = scalar_of(t)
        exact = FOUR[kind][1]
        if width == 1:
            one = Piece(f"{four}.x", POSTFIX, exact)
            one = one if s == exact else self.convert(one, s)
            return one if isinstance(t, Scalar) else Piece(self.make_vector(t, [one.text]), POSTFIX, t)  # type: ignore[arg-type]
        assert isinstance(t, Vec)
        if not self.native_vector(t):
            self.refuse("IMAGE", f"a texel of type {self.type_name(t)}", "fetch numbers of 32 bits")
        some = four if width == 4 else f"{four}.xy"
        return Piece(some if s == exact else f"convert_{self.type_name(t)}({some})", POSTFIX, t)

    def _four(self, value: Piece, t: Type, kind: str, width: int) -> str:
        """``value`` as the four lanes that a write takes; those beyond ``t`` are not stored."""
        name, exact = FOUR[kind]
        s = scalar_of(t)
        if width == 1:
            one = value if isinstance(t, Scalar) else Piece(f"{value.at(POSTFIX)}.lane[0]", POSTFIX, s)
            return f"({name})({(one if s == exact else self.convert(one, exact)).text})"
        if not self.native_vector(t):  # type: ignore[arg-type]
            self.refuse("IMAGE", f"a texel of type {self.type_name(t)}", "store numbers of 32 bits")
        if width == 4:
            return value.text if s == exact else f"convert_{name}({value.text})"
        wide = value.text if s == exact else f"convert_{name[:-1]}2({value.text})"
        return f"({name})({wide}, 0, 0)"


FOUR = {"f": ("float4", F32), "i": ("int4", I32), "ui": ("uint4", U32)}
MULTIPLICATIVE = 13
"""Precedence of ``*`` and ``/``."""
