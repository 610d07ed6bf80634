"""Textures and surfaces in OpenCL: images that a device reads as the interpreter does; refusals with a place."""

from __future__ import annotations

# ruff: noqa: E501  (rows of the tables)
from typing import Any

import numpy as np
import pytest

from ktc.backends import check_compile, emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from tests import devices

THREADS = 24
FLOATS = np.random.default_rng(3).random(7 * 5 * 6 * 4, np.float32)
BYTES = np.arange(200, dtype=np.uint8)


def kernel_of(body: str, params: str) -> Kernel:
    names = ", ".join(p.split()[-1].lstrip("*") for p in params.split(","))
    text = f"__global__ void k({params}) {{\n int i = threadIdx.x;\n {body} }}\n"
    return load(f"{text}void host({params}) {{ k<<<1, {THREADS}>>>({names}); }}\n", name="k.cu")


def image(cl: Any, context: Any, array: np.ndarray, extents: int, layered: bool) -> Any:
    """``array`` of (depth,) (height,) width (, lanes) as an image of its own element type."""
    lanes = array.shape[-1] if array.ndim > extents else 1
    order = {1: cl.channel_order.R, 2: cl.channel_order.RG, 4: cl.channel_order.RGBA}[lanes]
    t = {"float32": "FLOAT", "uint8": "UNSIGNED_INT8", "int16": "SIGNED_INT16"}[str(array.dtype)]
    shape = tuple(reversed(array.shape[:extents]))
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    fmt = cl.ImageFormat(order, getattr(cl.channel_type, t))
    host = np.ascontiguousarray(array)
    return cl.create_image(context, flags, fmt, shape, hostbuf=host, is_array=layered)


def on_device(kernel: Kernel, args: dict[str, tuple[np.ndarray, int]], layered: bool = False) -> dict[str, np.ndarray]:
    """Run on the first device; images that were written are read back."""
    cl, context, queue = devices.opencl(images=True)
    code = emit(kernel, "opencl")
    program = cl.Program(context, code.text).build(options=list(code.options), cache_dir=False)
    sampler = cl.Sampler(context, False, cl.addressing_mode.CLAMP_TO_EDGE, cl.filter_mode.NEAREST)
    out = cl.Buffer(
        context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(THREADS, np.float32)
    )
    packed: list[Any] = [out]
    made = {}
    for name, (array, extents) in args.items():
        try:
            made[name] = image(cl, context, array, extents, layered)
        except cl.LogicError as e:
            pytest.skip(f"the device has no such image: {e}")
        packed.append(made[name])
        if f"sampler_t {name}_sampler" in code.text:
            packed.append(sampler)
    k = cl.Kernel(program, code.entry)
    k.set_args(*packed)
    cl.enqueue_nd_range_kernel(queue, k, (THREADS,), (THREADS,))
    result = np.empty(THREADS, np.float32)
    cl.enqueue_copy(queue, result, out)
    found = {"out": result}
    for name, (array, extents) in args.items():
        if "write_only" in code.text:
            host = np.empty_like(array)
            cl.enqueue_copy(
                queue, host, made[name], origin=(0, 0, 0), region=(*reversed(array.shape[:extents]), 1, 1)[:3]
            )
            found[name] = host
    return found


@pytest.mark.parametrize(
    ("body", "array", "extents", "layered"),
    [
        ("out[i] = tex2D<float>(t, i * 0.4f - 1.0f, 2.5f) + tex2D<float>(t, i, i);", FLOATS[:42].reshape(6, 7), 2, False),
        ("float4 v = tex2D<float4>(t, i % 7, i % 5); out[i] = v.x + 2 * v.w;", FLOATS[:140].reshape(5, 7, 4), 2, False),
        ("uchar4 v = tex2D<uchar4>(t, i % 7, i % 5 - 0.5f); out[i] = v.x + 2 * v.w;", BYTES[:140].reshape(5, 7, 4), 2, False),
        ("out[i] = tex3D<float>(t, i % 4, i % 5, i % 6) - tex3D<float>(t, 9, -9, 2);", FLOATS[:120].reshape(6, 5, 4), 3, False),
        ("out[i] = tex2DLod<short>(t, i % 4, i, 0);", np.arange(-20, 20, dtype=np.int16).reshape(10, 4), 2, False),
        ("float2 v = tex2DLayered<float2>(t, i % 4, i % 5, i % 6); out[i] = v.x - v.y;", FLOATS[:240].reshape(6, 5, 4, 2), 3, True),
    ],
    ids=["2D", "2D-float4", "2D-uchar4", "3D", "level 0", "layered"],
)  # fmt: skip
def test_fetches_agree_with_the_interpreter(body: str, array: np.ndarray, extents: int, layered: bool) -> None:
    kernel = kernel_of(body, "float* out, cudaTextureObject_t t")
    wanted = run(kernel, {"out": np.zeros(THREADS, np.float32), "t": array})
    assert wanted.findings == [] and len(set(wanted.outputs["out"].tolist())) > 3
    assert on_device(kernel, {"t": (array, extents)}, layered)["out"].tolist() == wanted.outputs["out"].tolist()


@pytest.mark.parametrize(
    ("body", "array"),
    [
        ("surf2Dwrite(out[i] + i, s, (i % 8) * sizeof(float), i / 8);", FLOATS[:32].reshape(4, 8)),
        ("surf2Dwrite(make_uchar4(i, 2, 3, 4), s, i * 4, 1, cudaBoundaryModeZero);", BYTES[:128].reshape(4, 8, 4)),
        ("surf2Dwrite((short)(-i), s, (i % 8) * 2, i / 8 - 1, cudaBoundaryModeZero);", np.zeros((4, 8), np.int16)),
    ],
)
def test_surface_writes(body: str, array: np.ndarray) -> None:
    kernel = kernel_of(body, "float* out, cudaSurfaceObject_t s")
    mine = array.copy()
    wanted = run(kernel, {"out": np.zeros(THREADS, np.float32), "s": mine})
    assert wanted.findings == []
    got = on_device(kernel, {"s": (array, 2)})["s"]
    written = {"float32": lambda i: (i // 8, i % 8), "uint8": lambda i: (1, i), "int16": lambda i: (i // 8 - 1, i % 8)}
    value = {"float32": lambda i: i, "uint8": lambda i: [i, 2, 3, 4], "int16": lambda i: -i}[str(array.dtype)]
    expected = array.copy()
    for i in range(THREADS):
        y, x = written[str(array.dtype)](i)
        if 0 <= y < 4 and 0 <= x < 8:
            expected[y, x] = value(i)
    assert (got == expected).all() and (expected != array).any()


@pytest.mark.parametrize("mode", ["cudaBoundaryModeClamp", "cudaBoundaryModeZero"])
def test_surface_reads(mode: str) -> None:
    array = FLOATS[:32].reshape(4, 8)
    body = f"out[i] = surf2Dread<float>(s, (i - 3) * 4, i % 6 - 1, {mode});"
    kernel = kernel_of(body, "float* out, cudaSurfaceObject_t s")
    wanted = run(kernel, {"out": np.zeros(THREADS, np.float32), "s": array})
    assert wanted.findings == []
    assert on_device(kernel, {"s": (array, 2)})["out"].tolist() == wanted.outputs["out"].tolist()


def test_linear_memory_is_a_buffer_image_that_gives_zero_outside() -> None:
    kernel = kernel_of("out[i] = tex1Dfetch<float4>(t, i - 1).z;", "float* out, cudaTextureObject_t t")
    text = emit(kernel, "opencl").text
    assert "read_only image1d_buffer_t t)" in text and "i >= 0 && i < get_image_width(image)" in text
    try:
        check_compile(emit(kernel, "opencl"))
    except KtcError as e:
        assert e.exit_code == 3  # no device, or none that builds anything
    except Exception as e:  # PoCL compiles it and has no such function in its library
        assert "Cannot find symbol" in str(e)


@pytest.mark.parametrize(
    ("body", "params", "says"),
    [
        ("cudaTextureObject_t u = i < 9 ? t : s;\n out[i] = tex1Dfetch<float>(u, i);",
         "float* out, cudaTextureObject_t t, cudaTextureObject_t s", "not one parameter"),
        ("\n out[i] = texCubemap<float>(t, 1, 2, 3);", "float* out, cudaTextureObject_t t", "no counterpart"),
        ("\n out[i] = tex2DLod<float>(t, 1, 2, i);", "float* out, cudaTextureObject_t t", "a level"),
        ("\n out[i] = tex1D<float>(t, 1) + t;", "float* out, cudaTextureObject_t t", "as a number"),
        ("\n out[i] = tex1D<float>(t, 1) + tex2D<float>(t, 1, 1);", "float* out, cudaTextureObject_t t", "different images"),
        ("\n surf1Dwrite(surf1Dread<float>(t, 0), t, 4);", "float* out, cudaSurfaceObject_t t", "read and written"),
    ],
)  # fmt: skip
def test_what_images_cannot_do_is_refused(body: str, params: str, says: str) -> None:
    with pytest.raises(KtcError, match=says) as error:
        emit(kernel_of(body, params), "opencl")
    assert error.value.code == "E-BACKEND-IMAGE" and error.value.loc is not None


def test_an_image_that_is_read_and_written_needs_opencl_3() -> None:
    body = "surf2Dwrite(surf2Dread<float>(s, i * 4, 0) + 1, s, i * 4, 1);"
    text = emit(kernel_of(body, "float* out, cudaSurfaceObject_t s"), "opencl-cl30-subgroups").text
    assert "read_write image2d_t s" in text and "CLK_IMAGE_MEM_FENCE" in text


def test_a_variable_that_only_holds_an_object_is_the_object() -> None:
    body = (
        "cudaTextureObject_t u = t; cudaTextureObject_t v = u; out[i] = tex2D<float>(v, i, 1) + tex2D<float>(t, 0, 0);"
    )
    text = emit(kernel_of(body, "float* out, cudaTextureObject_t t"), "opencl").text
    assert text.count("read_imagef(t, t_sampler, ") == 2 and "ulong" not in text
