"""What a run shows on the way: where it stands after each event, as lines and as a view on terminals of any width."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from ktc.live.board import Board, after
from ktc.live.plain_lines import lines
from ktc.live.showing import Lines, on_terminal, showing
from ktc.live.terminal_view import View, lasting_lines
from tests.agent.fake_lab import FakeLab
from tests.agent.test_optimize import SPLIT, WIDE, Fixed, run, seconds, work

__all__ = ["work"]

FAST = "fast"
BEGIN = {"event": "begin", "kernel": "k", "device": {"name": "a GPU", "backend": "cuda"}, "planner": "rules",
         "budget": 20, "time_limit": None, "scenarios": ["prefill-4096x11008", "decode"]}  # fmt: skip
ORIGINAL = {"event": "original", "scenario": "decode", "seconds": 100e-6, "interval": (99e-6, 101e-6), "elapsed": 1.0}
BOUND = {"event": "bound", "scenario": "decode", "seconds": 20e-6, "limiter": "memory"}


def tune(time: float, script: str, spent: int = 1, **knobs: int) -> dict:
    lead = {"knobs": knobs, "seconds": time, "interval": (time * 0.99, time * 1.01)}
    return {"event": "tune", "scenario": "decode", "script": script, "failures": (), "leader": lead, "spent": spent,
            "budget": 20, "best": time, "original": 100e-6, "elapsed": 2.0}  # fmt: skip


def about(event: str, script: str, **fields: object) -> dict:
    base = {"event": event, "scenario": "decode", "script": script, "knobs": {}, "elapsed": 3.0}
    return base | {"original": 100e-6, "interval": None} | fields


def told(*events: dict) -> Board:
    board = Board()
    for e in events:
        board = after(board, e)
    return board


def text(*events: dict) -> str:
    said: list[str] = []
    show = Lines(said.append)
    for e in events:
        show(e)
    return "\n".join(said)


def seen(board: Board, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), no_color=True)
    console.print(View(board, 5.0))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_a_faster_configuration_waits_for_its_verdict_and_is_then_the_best() -> None:
    row = told(BEGIN, ORIGINAL, tune(50e-6, FAST)).row("decode")
    assert row.pending is not None and (row.pending.script, row.verified) == (FAST, None)
    row = told(BEGIN, ORIGINAL, tune(50e-6, FAST), about("improvement", FAST, seconds=50e-6)).row("decode")
    assert row.verified is not None and (row.verified.seconds, row.pending) == (50e-6, None)
    row = told(BEGIN, ORIGINAL, tune(40e-6, "faster"), about("improvement", FAST, seconds=50e-6)).row("decode")
    assert row.pending is not None and row.pending.script == "faster", "still waits"


def test_lines_hold_no_time_that_is_not_verified() -> None:
    assert "50.0 µs" not in text(BEGIN, ORIGINAL, BOUND, tune(50e-6, FAST))
    said = text(BEGIN, ORIGINAL, BOUND, tune(50e-6, FAST), about("improvement", FAST, seconds=50e-6, knobs={"V": 8}))
    assert "decode: 50.0 µs verified, 2.00x, 40 % of the bound (memory): fast V=8" in said


def test_what_was_shown_and_is_rejected_is_taken_back_with_the_reason() -> None:
    board = told(BEGIN, ORIGINAL, tune(50e-6, FAST))
    no = about("rejected", FAST, why="REJECTED: out of bounds")
    said = [str(t) for t in lasting_lines(board, no)]
    assert said == ["  rejected: fast: REJECTED: out of bounds",
                    "  withdrawn: 50.0 µs (2.00x), which was shown as not yet verified"]  # fmt: skip
    assert "withdrawn" not in "".join(lines(board, no)), "nobody saw it without a terminal"
    assert after(board, no).row("decode").pending is None
    built_on_it = told(BEGIN, ORIGINAL, tune(50e-6, "raise | unroll{loop=i factor=2}"), {**no, "script": "raise"})
    assert built_on_it.row("decode").pending is None


def test_a_verified_leader_is_withdrawn_aloud() -> None:
    best = about("improvement", FAST, seconds=50e-6)
    gone = about("withdrawn", FAST, seconds=50e-6, why="built on what was rejected: f")
    assert told(BEGIN, ORIGINAL, best, gone).row("decode").verified is None
    assert text(BEGIN, ORIGINAL, best, gone).endswith("50.0 µs is none: fast: built on what was rejected: f")


def result(after_us: float, script: str) -> dict:
    def timed(us: float) -> dict:
        return {"median": us * 1e-6, "low": us * 1e-6, "high": us * 1e-6}

    ratio = (100 / after_us, 100 / after_us, 100 / after_us)
    return about("result", script, before=timed(100), after=timed(after_us), ratio=ratio, verdict="TESTED", bound=2e-5,
                 limiter="memory")  # fmt: skip


def test_a_result_that_is_not_what_was_shown_says_why() -> None:
    best = about("improvement", FAST, seconds=50e-6)
    assert "in turns" not in text(BEGIN, ORIGINAL, best, result(50, FAST))
    assert "each alone: original 100 µs, this 50.0 µs" in text(BEGIN, ORIGINAL, best, result(60, FAST))
    duel = about("compare", FAST, before=1e-4, after=70e-6, ratio=(1.4, 1.4, 1.4))
    said = text(BEGIN, ORIGINAL, best, duel, result(60, "other"))
    assert "the fastest of the search, 50.0 µs, takes 70.0 µs in turns: fast" in said


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_view_fits_and_shows_what_there_is(width: int) -> None:
    long = "raise | distribute{loop=idx map=[vec $V, thread.x $T, seq]} | cache-hints{loads=none stores=out}"
    checking = about("verify", long)
    board = told(BEGIN, ORIGINAL, BOUND, about("improvement", long, seconds=60e-6), tune(50e-6, long, 5, V=8), checking)
    drawn = seen(board, width)
    assert max(map(len, drawn)) <= width
    assert len(drawn) == 6, "progress, head, a line a scenario, one for what waits, what is done now"
    if width >= 60:
        assert any("50.0 µs" in line and "not yet verified" in line and "2.00x" in line for line in drawn)
        assert any("60.0 µs" in line and "33 %" in line and line.rstrip().endswith("  verified") for line in drawn)
        assert "5/20" in drawn[0] and "now: verifying raise" in drawn[-1]
    if width >= 80:
        assert "left at most" in drawn[0]


def test_many_scenarios_are_shown_around_the_one_at_work() -> None:
    names = [f"s{i:02}" for i in range(30)]
    board = replace(told(BEGIN | {"scenarios": names}), scenario="s17")
    drawn = seen(board, 80)
    assert len(drawn) < 12 and any(line.startswith("s17") for line in drawn)


def test_time_left_follows_what_is_done() -> None:
    none, some, more = (told(BEGIN, ORIGINAL, tune(5e-5, "a", n)) for n in (0, 5, 15))
    assert none.left is None and some.left is not None and more.left is not None and some.left > more.left > 0
    limited = told(BEGIN | {"time_limit": 3.0}, ORIGINAL, tune(5e-5, "a", 5))
    assert limited.left == pytest.approx(1.0)


def test_silence_is_broken_once_a_minute() -> None:
    quiet = [about("verify", "x", elapsed=t) for t in (10.0, 65.0, 66.0, 130.0)]
    assert text(BEGIN, ORIGINAL, *quiet).count("measured in") == 2


def test_the_same_run_as_lines_on_a_terminal_and_read_back(work, tmp_path) -> None:
    """The numbers at the end are those that were shown; the trajectory gives the board that the listener had."""
    report, _, events = run(work, tmp_path, Fixed(WIDE, SPLIT), FakeLab(seconds))
    said = text(*events)
    for s in report.scenarios:
        assert f"{s.name}: result: " in said and f"{s.ratio[0]:.2f}x [" in said
    console = Console(width=80, file=io.StringIO(), force_terminal=True)
    with on_terminal(console) as show:
        for e in events:
            show(e)
    assert "result: 2.83 ms" in console.file.getvalue()  # type: ignore[attr-defined]
    read = [json.loads(line) for line in (tmp_path / "out" / "trajectory.jsonl").read_text().splitlines()]
    again, live = told(*read), told(*events)
    assert [(r.scenario, r.original, r.verified, r.bound) for r in again.rows] == [
        (r.scenario, r.original, r.verified, r.bound) for r in live.rows
    ]
    assert again.phase == "done" and again.done == 1.0


def test_a_leader_that_the_device_refutes_in_the_finals_is_withdrawn(work, tmp_path) -> None:
    class Wrong(FakeLab):
        def compare(self, c, knobs, scenario, rival=None):
            found = super().compare(c, knobs, scenario, rival)
            return replace(found, verdict="out[3] differs") if "block.y" in c.script else found

    _, _, events = run(work, tmp_path, Fixed(WIDE, SPLIT), Wrong(seconds), scenarios=["few"])
    gone = [e for e in events if e["event"] == "withdrawn"]
    assert gone and all(e["why"] == "out[3] differs" and e["script"] == SPLIT for e in gone)
    kinds = [(e["event"], e.get("script")) for e in events]
    assert ("improvement", WIDE) in kinds[kinds.index(("withdrawn", SPLIT)) :], "what leads now is said"


def test_quiet_says_nothing_and_a_pipe_gets_lines(capsys) -> None:
    with showing(quiet=True) as show:
        show(BEGIN)
    assert capsys.readouterr().err == ""
    with showing() as show:
        show(BEGIN)
    assert capsys.readouterr().err == "k on a GPU (cuda), planner rules, 20 measurements at most\n"
