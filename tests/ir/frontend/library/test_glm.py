"""GLM's vectors, matrices by columns and quaternions."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend import load
from ktc.ir.text import print_kernel

HEAD = "#include <glm/glm.hpp>\n#include <glm/gtc/type_ptr.hpp>\n"
A = np.array([0.5, -1.25, 2.0, 0.75, 3.0, -0.5, 1.5, 0.25, -2.0, 1.0, 0.125, 4.0], np.float32)


def out(execute, statements: str, size: int = 9) -> np.ndarray:
    """What ``statements`` leave in ``o``, where ``u`` and ``v`` are vectors of A and ``m`` is the matrix of 9 of it."""
    text = f"""{HEAD}
    __global__ void k(float* o, const float* a) {{
      const glm::vec3 u = glm::make_vec3(a), v(a[3], a[4], a[5]);
      const glm::mat3 m = glm::make_mat3(a);
      {statements} }}"""
    return execute(text, {"o": np.zeros(size, np.float32), "a": A})["o"]


U, V, M = A[:3], A[3:6], A[:9].reshape(3, 3).T


def test_vectors_are_by_component(execute) -> None:
    got = out(
        execute,
        """glm::vec3 w = 2.0f * u - v / 4.0f; w += v; w *= 0.5f; o[0] = w.x; o[1] = w[1]; o[2] = w.z;
        o[3] = glm::dot(u, v); o[4] = glm::length(v); const glm::vec3 c = glm::cross(u, v); o[5] = c.x; o[6] = c.z;
        for (int i = 0; i < 3; ++i) o[6] += 10 * glm::max(u, v)[i]; o[7] = (u == v) + 2 * (u != v);
        o[8] = glm::vec4(u, 7).w + glm::vec2(u).y + glm::ivec2(2.75f, 3).x + glm::vec3::length();""",
    )
    w = (2 * U - V / 4 + V) / 2
    c = np.cross(U, V)
    want = [*w, U @ V, np.linalg.norm(V), c[0], c[2] + 10 * np.maximum(U, V).sum(), 2, 7 + U[1] + 2 + 3]
    assert got == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ("m * glm::transpose(m)", M @ M.T),
        ("glm::inverse(m)", np.linalg.inv(M)),
        ("glm::outerProduct(u, v) + 2.0f * m", np.outer(U, V) + 2 * M),
        ("glm::mat3(2.0f) - m", 2 * np.eye(3) - M),
        ("glm::mat3(m * u, u * m, -u)", np.stack([M @ U, U @ M, -U], 1)),
    ],
)
def test_matrices_are_by_columns(execute, said: str, want: np.ndarray) -> None:
    got = out(execute, f"auto p = {said}; for (int c = 0; c < 9; ++c) o[c] = p[c / 3][c % 3];")
    assert got == pytest.approx(want.T.ravel(), rel=1e-5, abs=1e-5)


def test_matrices_that_are_not_square(execute) -> None:
    made = "const auto p = glm::mat3x2(1, 2, 3, 4, 5, 6) * m; const auto t = glm::transpose(glm::mat2x3(m));"
    got = out(execute, f"{made} for (int c = 0; c < 6; ++c) o[c] = p[c / 2][c % 2] + t[c / 2][c % 2];", 6)
    assert got == pytest.approx((np.array([[1, 3, 5], [2, 4, 6]]) @ M + M.T[:2]).T.ravel(), rel=1e-5)


def test_diagonals_and_lists(execute) -> None:
    made = "const auto p = glm::mat3x2(5) + glm::mat3x2(m); const glm::vec2 v = glm::vec2({a[0] + 1, a[1]});"
    got = out(execute, f"{made} for (int c = 0; c < 6; ++c) o[c] = p[c / 2][c % 2]; o[6] = v.x; o[7] = v.y;")
    want = M[:2] + 5 * np.eye(2, 3)
    assert got[:8] == pytest.approx([*want.T.ravel(), A[0] + 1, A[1]], rel=1e-6)


def test_quaternions_rotate_as_their_matrices_do(execute) -> None:
    got = out(
        execute,
        """const glm::quat q = glm::normalize(glm::quat(a[0], a[1], a[2], a[3]));
        const glm::vec3 d = q * u - glm::mat3_cast(q) * u; const glm::vec3 e = glm::inverse(q) * (q * v) - v;
        o[0] = glm::length(d); o[1] = glm::length(e); const glm::quat b = glm::quat_cast(glm::mat3_cast(q));
        o[2] = glm::abs(glm::dot(b, q));
        o[3] = glm::length(glm::slerp(q, glm::quat(1, 0, 0, 0), 0.25f)); o[4] = q.w;""",
    )
    assert got[:5] == pytest.approx([0, 0, 1, 1, A[0] / np.linalg.norm(A[:4])], abs=1e-6)


def test_a_namespace_that_is_used_is_not_one_that_is_defined(execute) -> None:
    text = f"{HEAD}using namespace glm;\n__global__ void k(float* o) {{ vec2 v(1.0f, 2.0f); o[0] = v.y; }}"
    assert execute(text, {"o": np.zeros(1, np.float32)})["o"][0] == 2


def test_a_copy_of_glm_is_not_read_and_another_folder_of_that_name_is(tmp_path, execute) -> None:
    (tmp_path / "glm").mkdir()
    (tmp_path / "glm" / "glm.hpp").write_text("#error beyond the front-end\n")
    (tmp_path / "glm" / "models.h").write_text("#define FACTOR 3\n")
    path = tmp_path / "k.cu"
    path.write_text(
        '#include <glm/glm.hpp>\n#include "glm/models.h"\n'
        "__global__ void k(float* o) { o[0] = FACTOR * glm::vec2(1.0f, 2.0f).y; }"
    )
    k = load(str(path), include_dirs=(str(tmp_path),))
    assert print_kernel(k).count("o[0] = ") == 1 and k.params[0].sym.name == "o"
