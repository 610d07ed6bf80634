"""An error of ours is called one: it is not taken for a fault of the source that is read."""

from __future__ import annotations

import json

import pytest

from ktc.__main__ import EXIT_BUG, exit_code
from ktc.ir.diagnostics import InternalError, KtcError
from ktc.ir.frontend import load
from ktc.ir.frontend.preprocess import preprocessor
from ktc.ir.frontend.syntax.cxx_parser import CudaParser
from ktc.project.source_trees import Tree
from ktc.survey import SurveyOptions
from ktc.survey.assumptions import Builds
from ktc.survey.unit import UnitSurvey

GOOD = "__global__ void good(float* x) { x[0] = 1; }\n"
TRIP = "__global__ void trip(float* x) { x[0] = 2; }\n"


@pytest.fixture
def parser_with_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CudaParser._parse_simple_declaration

    def parse(self: CudaParser, top: bool = False) -> list:
        found = whole(self, top)
        if any(getattr(d, "name", "") == "trip" for d in found):
            raise AttributeError("'NoneType' object has no attribute 'args'")
        return found

    monkeypatch.setattr(CudaParser, "_parse_simple_declaration", parse)


@pytest.mark.usefixtures("parser_with_a_bug")
def test_a_bug_of_the_parser_is_no_syntax_error() -> None:
    with pytest.raises(InternalError) as e:
        load(GOOD + TRIP, name="k.cu", kernel="trip")
    error = e.value
    assert (error.code, error.exit_code) == ("E-INTERNAL", EXIT_BUG)
    assert "AttributeError" in error.message and "test_internal_errors.py" in error.message
    assert error.loc is not None and error.loc.line == 2
    assert all(word in error.hint for word in ("source file", "kernel", "ktc ", "KTC_DEBUG=1"))
    assert load(GOOD + TRIP, name="k.cu", kernel="good").name == "good", "the rest of the file is read"


@pytest.mark.usefixtures("parser_with_a_bug")
def test_the_traceback_is_there_for_the_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTC_DEBUG", "1")
    with pytest.raises(AttributeError):
        load(GOOD + TRIP, name="k.cu", kernel="trip")


def test_a_bug_of_the_preprocessor_is_no_malformed_directive(monkeypatch: pytest.MonkeyPatch) -> None:
    def rendered(*args: object) -> str:
        raise TypeError("ours")

    monkeypatch.setattr(preprocessor, "rendered", rendered)
    with pytest.raises(InternalError):
        load(GOOD, name="k.cu")
    monkeypatch.undo()
    with pytest.raises(KtcError) as e:
        load("#if (\n" + GOOD + "#endif\n", name="k.cu")
    assert not isinstance(e.value, InternalError)


def test_the_command_says_what_to_send(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise KeyError("x")

    assert exit_code(work, as_json=True) == EXIT_BUG
    out, err = capsys.readouterr()
    assert json.loads(out)["error"] == "E-INTERNAL"
    assert "KeyError" in err and "please send" in err


@pytest.mark.parametrize(
    "text", ["template <", "template <int N> ", "template <typename", "using A = struct", "struct S<"]
)
def test_a_file_that_ends_too_soon_is_the_users_error(text: str) -> None:
    with pytest.raises(KtcError) as e:
        load(text + "\n", name="k.cu")
    assert not isinstance(e.value, InternalError)


@pytest.mark.usefixtures("parser_with_a_bug")
def test_the_survey_counts_it_as_ours(tmp_path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(GOOD + TRIP)
    tree = Tree(str(tmp_path))
    unit = UnitSurvey(str(file), tree, SurveyOptions(str(tmp_path), compile=False), Builds(tree))
    good, trip = unit.records(0, lambda found: None)
    assert good["parsed"] and not trip["parsed"]
    assert trip["refusal"]["code"] == "E-INTERNAL" and "please send" in trip["refusal"]["hint"]
