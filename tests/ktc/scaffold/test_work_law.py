"""How much a launch does, by its sizes: a law that goes through what was seen, also where a power had to be limited."""

from __future__ import annotations

import math

from ktc.scaffold.scenarios import work_of


def test_a_power_law_is_found() -> None:
    seen = [({"n": n, "m": m}, 5 * n * m * m) for n in (8, 64) for m in (16, 128)]
    law = work_of(seen, ["n", "m"])
    assert math.isclose(law.powers["n"], 1.0, rel_tol=1e-9) and math.isclose(law.powers["m"], 2.0, rel_tol=1e-9)
    assert math.isclose(law.scale, 5.0, rel_tol=1e-6)


def test_limited_powers_leave_a_law_that_goes_through_what_was_seen() -> None:
    """Data that a size chooses, and not the size itself: the counts hang on more than a law of the sizes has."""
    seen = [
        ({"n": 128, "rows": 256, "width": 640}, 8_616),
        ({"n": 256, "rows": 384, "width": 512}, 16_962),
        ({"n": 384, "rows": 128, "width": 768}, 24_973),
        ({"n": 256, "rows": 256, "width": 384}, 3_654_466),
        ({"n": 512, "rows": 128, "width": 256}, 4_881_799),
    ]
    law = work_of(seen, ["n", "rows", "width"])
    assert all(0.0 <= p <= 3.0 for p in law.powers.values()) and 0.0 in law.powers.values()
    assert min(w for _, w in seen) <= law(seen[0][0]) <= max(w for _, w in seen)
    assert abs(sum(math.log(law(s) / w) for s, w in seen)) < 1e-6, "as far above as below"
