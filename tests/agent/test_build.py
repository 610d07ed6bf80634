"""Scripts become templates, or outcomes that say why not; nothing escapes."""

import pytest

from ktc.agent.build import Builder, Candidate
from ktc.agent.planner import MAX_SCRIPT_CHARS, Outcome, Proposal
from ktc.ir.text import parse_kernel
from tests.agent.agent_kernels import ROWS, SERIAL


@pytest.fixture
def builder():
    return Builder(parse_kernel(ROWS))


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("raise | vectorise{loop=i}", "E-PASS-UNKNOWN"),
        ("raise | unroll{loop=i by=2}", "E-PASS-ARG"),
        ("raise |", "E-SCRIPT-SYNTAX"),
        ("raise | distribute{loop=nope map=[thread.x 64, seq]}", "E-PLACE"),
        ("distribute{loop=i map=[thread.x 64, seq]}", "E-PLACE-SPMD"),
        ("raise | raise", "E-RAISE-DONE"),
        ("raise where Q < 3", "E-WHERE"),
        ("raise" + " | simplify" * 40, "E-SCRIPT-LIMIT"),
        ("raise #" + "x" * MAX_SCRIPT_CHARS, "E-SCRIPT-LIMIT"),
        ("__import__('os').system('true')", "E-SCRIPT-SYNTAX"),
        ("\x00\ud800", "E-SCRIPT-SYNTAX"),
    ],
)
def test_what_does_not_apply_is_a_refusal_with_a_code(builder, script, code):
    outcome = builder.build(Proposal(script, "because", planner="llm"))
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.code, outcome.planner) == ("refused", code, "llm")
    assert outcome.detail and builder.attempt(script).code == code


def test_a_script_with_knobs_is_a_candidate(builder):
    c = builder.build(Proposal("raise | distribute{loop=i map=[vec $V, thread.x $T, seq]}", ""))
    assert isinstance(c, Candidate)
    assert {k.name for k in c.kernel.knobs} == {"V", "T"}


def test_scripts_that_lower_to_the_same_code_share_a_key(builder):
    keys = {builder.build(Proposal(s, "")).key for s in ("raise", "raise | simplify", "raise | simplify | simplify")}
    assert len(keys) == 1


def test_domains_are_part_of_the_key(builder):
    a = builder.build(Proposal("raise | vectorize{loop=i width=$V:1,2}", ""))
    b = builder.build(Proposal("raise | vectorize{loop=i width=$V:1,2,4}", ""))
    assert a.key != b.key


def test_the_identity_always_builds():
    assert isinstance(Builder(parse_kernel(SERIAL)).build(Proposal("", "")), Candidate)


def test_a_broken_pass_is_reported_not_raised(builder, monkeypatch):
    from ktc.passes.core import pipeline

    def broken(kernel, script, memo):
        raise pipeline.PassBug("unroll", [], kernel, kernel)

    monkeypatch.setattr(pipeline, "apply_script", broken)
    outcome = builder.build(Proposal("raise", ""))
    assert (outcome.status, outcome.code) == ("failed", "E-PASS-BUG")


def test_what_scripts_begin_with_alike_is_applied_once(builder, monkeypatch):
    from ktc.passes.raising.raise_ import Raise

    calls = []
    whole = Raise.apply
    monkeypatch.setattr(Raise, "apply", lambda *a: calls.append(a) or whole(*a))
    made = [builder.build(Proposal(s, "")) for s in ("raise", "raise | unroll{loop=i factor=2}", "raise | simplify")]
    assert len(calls) == 1
    assert Builder(builder.original).build(Proposal("raise | unroll{loop=i factor=2}", "")).key == made[1].key
