"""How each language spells the functions that the IR calls by canonical name. One row a function: add a row, done.

Columns of ``FLOAT``: CUDA/HIP name for f32, f64, f16 (``-``: none, computed in f32), then OpenCL's overloaded name.
A cell with ``{0}`` is a template over the arguments, each printed so that it binds tighter than any binary operator.
Sources: CUDA Math API 13.0 (single, double, half, integer intrinsics), OpenCL C 3.0 sections 6.15.2 and 6.15.3.
"""

from __future__ import annotations

from ktc.ir.field_words import ARITY
from ktc.ir.types import BF16, F16, F32, F64, I32, I64, U32, U64, Scalar

FLOAT = """
exp        expf        exp        hexp     exp
exp2       exp2f       exp2       hexp2    exp2
exp10      exp10f      exp10      hexp10   exp10
expm1      expm1f      expm1      -        expm1
log        logf        log        hlog     log
log2       log2f       log2       hlog2    log2
log10      log10f      log10      hlog10   log10
log1p      log1pf      log1p      -        log1p
sqrt       sqrtf       sqrt       hsqrt    sqrt
rsqrt      rsqrtf      rsqrt      hrsqrt   rsqrt
rcp        1.0f/{0}    1.0/{0}    -        1/{0}
sin        sinf        sin        hsin     sin
cos        cosf        cos        hcos     cos
tan        tanf        tan        -        tan
sinh       sinhf       sinh       -        sinh
cosh       coshf       cosh       -        cosh
tanh       tanhf       tanh       -        tanh
asin       asinf       asin       -        asin
acos       acosf       acos       -        acos
atan       atanf       atan       -        atan
atan2      atan2f      atan2      -        atan2
erf        erff        erf        -        erf
erfc       erfcf       erfc       -        erfc
cbrt       cbrtf       cbrt       -        cbrt
floor      floorf      floor      hfloor   floor
ceil       ceilf       ceil       hceil    ceil
trunc      truncf      trunc      htrunc   trunc
round      roundf      round      -        round
rint       rintf       rint       hrint    rint
abs        fabsf       fabs       __habs   fabs
isnan      isnan       isnan      __hisnan isnan
isinf      isinf       isinf      __hisinf isinf
isfinite   isfinite    isfinite   -        isfinite
signbit    signbit     signbit    -        signbit
pow        powf        pow        -        pow
fmod       fmodf       fmod       -        fmod
remainder  remainderf  remainder  -        remainder
min        fminf       fmin       __hmin   fmin
max        fmaxf       fmax       __hmax   fmax
copysign   copysignf   copysign   -        copysign
hypot      hypotf      hypot      -        hypot
fdim       fdimf       fdim       -        fdim
fma        fmaf        fma        __hfma   fma
asinh      asinhf      asinh      -        asinh
acosh      acoshf      acosh      -        acosh
atanh      atanhf      atanh      -        atanh
sinpi      sinpif      sinpi      -        sinpi
cospi      cospif      cospi      -        cospi
lgamma     lgammaf     lgamma     -        lgamma
tgamma     tgammaf     tgamma     -        tgamma
erfinv     erfinvf     erfinv     -        -
erfcinv    erfcinvf    erfcinv    -        -
erfcx      erfcxf      erfcx      -        -
normcdf    normcdff    normcdf    -        -
normcdfinv normcdfinvf normcdfinv -        -
rcbrt      rcbrtf      rcbrt      -        -
logb       logbf       logb       -        logb
ilogb      ilogbf      ilogb      -        ilogb
ldexp      ldexpf      ldexp      -        ldexp
nextafter  nextafterf  nextafter  -        nextafter
rhypot     rhypotf     rhypot     -        -
j0         j0f         j0         -        -
j1         j1f         j1         -        -
y0         y0f         y0         -        -
y1         y1f         y1         -        -
cyl_bessel_i0 cyl_bessel_i0f cyl_bessel_i0 - -
cyl_bessel_i1 cyl_bessel_i1f cyl_bessel_i1 - -
saturate   __saturatef -          __hsat   clamp({0},0.0f,1.0f)
fast_exp   __expf      exp        hexp     native_exp
fast_exp2  exp2f       exp2       hexp2    native_exp2
fast_exp10 __exp10f    exp10      hexp10   native_exp10
fast_log   __logf      log        hlog     native_log
fast_log2  __log2f     log2       hlog2    native_log2
fast_log10 __log10f    log10      hlog10   native_log10
fast_sin   __sinf      sin        hsin     native_sin
fast_cos   __cosf      cos        hcos     native_cos
fast_tan   __tanf      tan        -        native_tan
fast_tanh  fast_tanh   tanh       -        tanh
fast_pow   __powf      pow        -        native_powr
fast_div   __fdividef  {0}/{1}    -        native_divide
fast_rcp   __fdividef(1.0f,{0}) 1.0/{0} hrcp native_recip
fast_rsqrt rsqrtf      rsqrt      hrsqrt   native_rsqrt
fast_sqrt  __fsqrt_rn  sqrt       hsqrt    native_sqrt
"""

# Signed and unsigned, 32 and 64 bits; OpenCL's are overloaded by type.
INT = """
min       min          min        min            min            min
max       max          max        max            max            max
abs       abs          {0}        llabs          {0}            abs
popc      __popc       __popc     __popcll       __popcll       popcount
clz       __clz        __clz      __clzll        __clzll        clz
ffs       __ffs        __ffs      __ffsll        __ffsll        ffs_
brev      __brev       __brev     __brevll       __brevll       brev_
mulhi     __mulhi      __umulhi   __mul64hi      __umul64hi     mul_hi
byte_perm __byte_perm  __byte_perm -             -              byte_perm_
mul24     __mul24      __umul24   -              -              mul24_
dp4a      __dp4a       __dp4a     -              -              dp4a_
int2float_rz __int2float_rz __uint2float_rz __ll2float_rz __ull2float_rz convert_float_rtz
int2float_ru __int2float_ru __uint2float_ru __ll2float_ru __ull2float_ru convert_float_rtp
int2float_rd __int2float_rd __uint2float_rd __ll2float_rd __ull2float_rd convert_float_rtn
"""

DIRECTED = """
add   __fadd   __dadd  __hadd
sub   __fsub   __dsub  __hsub
mul   __fmul   __dmul  __hmul
div   __fdiv   __ddiv  -
rcp   __frcp   __drcp  -
sqrt  __fsqrt  __dsqrt -
fma   __fmaf   __fma   -
rsqrt __frsqrt -       -
"""
"""``add_rn`` and so on: stem plus the rounding mode (CUDA; f32, f64, 16 bits, which know ``_rn`` alone)."""


NEAREST = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
"""``add_rn`` and so on outside CUDA: the plain operator, in a function that forbids contraction into a fused one."""


def nearest(fn: str) -> str:
    """The operator of ``add_rn`` and so on, '' for any other function."""
    stem, _, mode = fn.rpartition("_")
    return NEAREST.get(stem, "") if mode == "rn" else ""


def _rows(table: str) -> dict[str, tuple[str, ...]]:
    return {cells[0]: tuple(cells[1:]) for line in table.strip().splitlines() if (cells := line.split())}


_FLOAT, DIRECTED_STEMS = _rows(FLOAT), _rows(DIRECTED)
_INT = _rows(INT) | {name: (name,) * 5 for name in ARITY}
_FLOAT_COLUMN = {F32: 0, F64: 1, F16: 2, BF16: 2}
_INT_COLUMN = {("int", 32): 0, ("uint", 32): 1, ("int", 64): 2, ("uint", 64): 3}

HIP_OVERRIDES: dict[tuple[str, Scalar], str] = {
    ("saturate", F32): "fminf(fmaxf({0},0.0f),1.0f)",
    ("saturate", F16): "-",
    ("fast_tanh", F32): "tanhf",
    ("min", F16): "-",
    ("max", F16): "-",
    ("dp4a", I32): "dp4a",
    ("dp4a", U32): "dp4a",
} | {(f"int2float_{mode}", t): "-" for mode in ("rz", "ru", "rd") for t in (I32, U32, I64, U64)}
"""Where HIP's headers (ROCm 5.2 and later) differ from CUDA's: ``-`` means computed in f32."""


def spelling(fn: str, t: Scalar, language: str) -> str | None:
    """The name or template of canonical ``fn`` on type ``t`` in cuda | hip | opencl; None if it has none."""
    if language == "hip" and (fn, t) in HIP_OVERRIDES:
        found = HIP_OVERRIDES[fn, t]
        return None if found == "-" else found
    stem, _, mode = fn.rpartition("_")
    if mode in ("rn", "rz", "ru", "rd") and stem in DIRECTED_STEMS:
        if language != "cuda" and mode == "rn" and stem in ("sqrt", "fma", "rcp"):
            return spelling(stem, t, language)  # correctly rounded there by default, or by a build option
        name = DIRECTED_STEMS[stem][_FLOAT_COLUMN[t]] if language == "cuda" and t in _FLOAT_COLUMN else "-"
        return None if name == "-" or (t.bits < 32 and mode != "rn") else f"{name}_{mode}"
    if t.is_float:
        row, column = _FLOAT.get(fn), _FLOAT_COLUMN.get(t)
        opencl = 3
    else:
        row, column = _INT.get(fn), _INT_COLUMN.get((t.kind, max(32, t.bits)))
        opencl = 4
    if row is None or column is None:
        return None
    found = row[opencl if language == "opencl" else column]
    return None if found == "-" else found


def is_known(fn: str) -> bool:
    """Whether ``fn`` is a canonical function of any type."""
    stem, _, mode = fn.rpartition("_")
    return fn in _FLOAT or fn in _INT or fn == "cdiv" or (stem in DIRECTED_STEMS and mode in ("rn", "rz", "ru", "rd"))
