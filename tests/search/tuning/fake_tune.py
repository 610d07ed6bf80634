"""A tuning run with a slow, deterministic evaluator, to be killed: ``fake_tune.py LEDGER LOG BUDGET DELAY_S [GATE N]``.

With GATE, a folder, it starts when N processes have come so far. It appends a line to LOG when an evaluation is
finished, before the tuner hears of it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import optuna  # noqa: F401 (imported before the gate, for it takes long)

from ktc.ir.kernel import KnobDecl
from ktc.ir.nodes import Binary, Knob, i32
from ktc.search.records.ledger import Ledger, StudyKey
from ktc.search.records.outcome import Outcome
from ktc.search.space.knob_space import Space
from ktc.search.tuning.tune import tune

KEY = StudyKey("recipe", "device", "compiler", "shape")


def space() -> Space:
    knobs = [KnobDecl("V", (1, 2, 4, 8), 4), KnobDecl("T", (32, 64, 128, 256, 512), 256), KnobDecl("U", (1, 2, 3), 1)]
    return Space(knobs, [Binary("<=", Binary("*", Knob("V"), Knob("U")), i32(16))])


def outcome(config: dict[str, int]) -> Outcome:
    """Fails for one corner; else a bowl around V=4, T=128, U=2."""
    if config["V"] == 8 and config["T"] == 512:
        return Outcome("compile-error", details={"log": "too many registers"})
    cost = abs(config["V"] - 4) + abs(config["T"] - 128) / 64 + abs(config["U"] - 2)
    return Outcome("ok", {"large": 1e-5 * (1 + cost), "small": 2e-6 * (1 + cost)})


def main() -> None:
    path, log, budget, delay = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])

    if len(sys.argv) > 5:
        gate = Path(sys.argv[5])
        (gate / str(os.getpid())).touch()
        while len(list(gate.iterdir())) < int(sys.argv[6]):
            time.sleep(0.01)

    def evaluate(config, incumbent):
        time.sleep(delay)
        with open(log, "a") as f:
            f.write(f"{config['V']},{config['T']},{config['U']}\n")
            f.flush()
            os.fsync(f.fileno())
        return outcome(config)

    result = tune(None, evaluate, space(), budget=budget, ledger=Ledger(path), study_key=KEY, sampler="tpe")
    print(f"done {len(result.trials)} {result.resumed}")


if __name__ == "__main__":
    main()
