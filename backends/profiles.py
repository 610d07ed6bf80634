"""What each target can do. A construct that a profile lacks is lowered by a named rule or refused with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ktc.ir.diagnostics import KtcError
from ktc.ir.fragments import INSTRUCTIONS
from ktc.ir.types import E4M3, E5M2


@dataclass(frozen=True)
class Profile:
    """One target.

    ``shuffle``: how warp collectives are spelled (``sync``, ``wave``, ``ptx``, ``subgroup``; '' for none).

    ``f16``/``bf16``: ``native`` types, or ``bits`` (stored as 16-bit integers, computed in f32). ``shared_limit`` is
    the static shared memory of a block in bytes, ``fragments`` the tensor-core instructions (``ktc.ir.fragments``).
    ``native_functions``: OpenCL's are as exact as CUDA says its fast ones are.
    ``loops``: a core runs a task's loops as they stand, and its compiler makes vectors of the innermost ones.
    ``image_levels``: a texture can be fetched at a level of detail, for which CDNA has no instruction.
    """

    name: str
    backend: str
    warp: int = 32
    shuffle: str = ""
    f16: str = "native"
    bf16: str = "native"
    f64: bool = True
    async_copy: bool = False
    group_copy: bool = False
    bulk_copy: bool = False
    device_fence: bool = True
    float_atomics: bool = True
    directed_rounding: bool = False
    native_functions: bool = False
    inline_ptx: bool = False
    image_levels: bool = True
    loops: bool = False
    fragments: frozenset[str] = frozenset()
    shared_limit: int = 48 * 1024
    shared_optin: int = 48 * 1024
    max_threads: int = 1024
    arch: str = ""
    options: tuple[str, ...] = ()


_EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"

OF_FP8 = frozenset(f.name for f in INSTRUCTIONS.values() if f.operand in (E4M3, E5M2))
"""Fragments of floats of 8 bits: from compute capability 8.9 on, which converts pairs of them in one instruction."""

WARP_FRAGMENTS = frozenset(f.name for f in INSTRUCTIONS.values() if not f.from_shared) - OF_FP8

PROFILES: dict[str, Profile] = {
    p.name: p
    for p in (
        Profile("cuda-sm90", "cuda", shuffle="sync", async_copy=True, bulk_copy=True, directed_rounding=True,
                inline_ptx=True, fragments=frozenset(INSTRUCTIONS), shared_optin=227 * 1024, arch="sm_90"),
        Profile("cuda-sm80", "cuda", shuffle="sync", async_copy=True, directed_rounding=True, inline_ptx=True,
                fragments=WARP_FRAGMENTS, shared_optin=163 * 1024, arch="sm_80"),
        Profile("hip-gfx90a", "hip", shuffle="wave", bf16="bits", shared_limit=64 * 1024, shared_optin=64 * 1024,
                image_levels=False, arch="gfx90a"),
        Profile("hip-gfx942", "hip", shuffle="wave", bf16="bits", shared_limit=64 * 1024, shared_optin=64 * 1024,
                image_levels=False, arch="gfx942"),
        Profile("hip-gfx1100", "hip", shuffle="wave", bf16="bits", shared_limit=64 * 1024, shared_optin=64 * 1024,
                arch="gfx1100"),
        Profile("opencl-cl12", "opencl", group_copy=True, warp=1, f16="bits", bf16="bits",
                device_fence=False, float_atomics=False,
                shared_limit=32 * 1024, shared_optin=32 * 1024, options=("-cl-std=CL1.2",)),
        Profile("opencl-cl30-subgroups", "opencl", group_copy=True, shuffle="subgroup", f16="bits", bf16="bits",
                float_atomics=False,
                shared_limit=32 * 1024, shared_optin=32 * 1024, options=("-cl-std=CL3.0",)),
        Profile("opencl-nvidia", "opencl", group_copy=True, shuffle="ptx", f16="bits", bf16="bits",
                float_atomics=False, inline_ptx=True, native_functions=True,
                shared_limit=48 * 1024, shared_optin=48 * 1024, options=("-cl-std=CL1.2", _EXACT)),
        Profile("opencl-cpu", "opencl", group_copy=True, warp=1, f16="bits", bf16="bits", float_atomics=False,
                loops=True, device_fence=False, shared_limit=32 * 1024, shared_optin=32 * 1024,
                options=("-cl-std=CL1.2",)),
        Profile("opencl-cpu-subgroups", "opencl", group_copy=True, shuffle="subgroup", f16="bits", bf16="bits",
                float_atomics=False, loops=True, shared_limit=32 * 1024, shared_optin=32 * 1024,
                options=("-cl-std=CL3.0",)),
        Profile("numba", "numba", shuffle="lanes", f16="bits", bf16="bits", loops=True,
                shared_limit=1 << 20, shared_optin=1 << 20),
    )
}  # fmt: skip

DEFAULT_PROFILE = {"cuda": "cuda-sm90", "hip": "hip-gfx90a", "opencl": "opencl-cl12", "numba": "numba"}
"""The profile of a bare target name: what every device of that language can run."""


def profile_for(target: str, profile: str | None = None) -> Profile:
    """The profile named, or the default of ``target``; ``target`` may itself be a profile's name.

    Raises:
        KtcError: E-BACKEND-TARGET (usage) for a name that is neither.
    """
    name = profile or DEFAULT_PROFILE.get(target, target)
    found = PROFILES.get(name) or _other_gpu(name)
    if found is None or (target in DEFAULT_PROFILE and found.backend != target):
        known = ", ".join([*DEFAULT_PROFILE, *PROFILES])
        raise KtcError("E-BACKEND-TARGET", f"no target '{profile or target}'", hint=f"one of: {known}", exit_code=2)
    return found


def _fragments(number: int) -> frozenset[str]:
    """What the tensor cores of compute capability ``number`` multiply: warpgroups are those of 9.0 alone."""
    since = ((89, WARP_FRAGMENTS | OF_FP8), (80, WARP_FRAGMENTS))
    if number == 90:
        return PROFILES["cuda-sm90"].fragments
    return next((names for least, names in since if number >= least), frozenset())


def _other_gpu(name: str) -> Profile | None:
    """The profile of a GPU outside the table: its family's, with what depends on the architecture corrected."""
    if match := re.fullmatch(r"cuda-sm(\d+)([af]?)", name):
        number = int(match[1])
        base = PROFILES["cuda-sm90" if number >= 90 else "cuda-sm80"]
        return replace(
            base,
            name=name,
            arch=f"sm_{match[1]}{match[2]}",
            async_copy=number >= 80,
            bulk_copy=number >= 90,
            fragments=_fragments(number),
        )
    if match := re.fullmatch(r"hip-(gfx[0-9a-f]+)", name):
        with_graphics = match[1].startswith("gfx1")
        return replace(PROFILES["hip-gfx90a"], name=name, arch=match[1], image_levels=with_graphics)
    return None
