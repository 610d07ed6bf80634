"""What is asked in the place of a configuration that the ladder cannot decide."""

from __future__ import annotations

from concurrent.futures import Future

from ktc.agent.build import Builder, Candidate
from ktc.agent.planner import Proposal
from ktc.agent.verdicts import Verdicts
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.search.verification import Verdict
from tests.agent.agent_kernels import SHAPES
from tests.agent.fake_lab import FakeLab

PLANES = (
    "raise | distribute{loop=y map=[thread.y $TY:(2,4,8,16), block.y]}"
    " | distribute{loop=x map=[thread.x $TX:(256,512), block.x]}"
)


class Undecided(FakeLab):
    """A gate that decides nothing."""

    def gate(self, kernel: Kernel) -> Future[Verdict]:
        self.gated.append(kernel)
        answer: Future[Verdict] = Future()
        answer.set_result(Verdict("UNKNOWN", "fake", "too large"))
        return answer


def test_knobs_that_are_asked_about_instead_make_a_block_that_can_be_launched() -> None:
    """Each default suits a block; together they would be 2048 threads, and a rejection that says nothing of the one
    that was measured."""
    built = Builder(parse_kernel(SHAPES["stencil"])).build(Proposal(PLANES, ""))
    assert isinstance(built, Candidate)
    defaults = built.kernel.knob_values
    assert defaults["TY"] * defaults["TX"] > 1024
    lab = Undecided(lambda script, knobs, scenario: 1.0)
    verdicts = Verdicts(lab, lambda *a, **k: None)
    verdicts.begin(built, {"TY": 2, "TX": 512})
    assert verdicts.settled() and len(lab.gated) >= 2
    assert all(k.knob_values["TY"] * k.knob_values["TX"] <= 1024 for k in lab.gated)


class Slow(FakeLab):
    """A gate that answers when the test says so."""

    def __init__(self) -> None:
        super().__init__(lambda script, knobs, scenario: 1.0)
        self.answers: list[Future[Verdict]] = []

    def gate(self, kernel: Kernel) -> Future[Verdict]:
        self.answers.append(Future())
        return self.answers[-1]


def test_who_waits_for_one_verdict_hears_the_others_as_they_come() -> None:
    built = Builder(parse_kernel(SHAPES["stencil"])).build(Proposal(PLANES, ""))
    assert isinstance(built, Candidate)
    lab, heard = Slow(), []

    def meanwhile() -> None:
        heard.append([case.knobs["TX"] for case in verdicts.settled()])
        lab.answers[0].set_result(Verdict("TESTED", "fake", "well"))

    verdicts = Verdicts(lab, lambda *a, **k: None, meanwhile)
    first, second = (verdicts.begin(built, {"TY": 2, "TX": tx}) for tx in (256, 512))
    verdicts.wait(first, 0.0)
    assert first.verdict is None and not heard
    lab.answers[1].set_result(Verdict("TESTED", "fake", "well"))
    verdicts.wait(first)
    assert heard == [[512]] and first.accepted and second.accepted
