"""The report page: nothing from outside becomes markup, the policy allows the page itself, figures show their data."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from ktc.page.blocks import (
    Beside,
    Block,
    Code,
    Commands,
    Difference,
    Figure,
    Folded,
    Page,
    Paragraph,
    Section,
    Table,
)
from ktc.page.differences import difference
from ktc.page.document import html, style
from ktc.page.figures.bound_bars import Bar, Group, bound_bars
from ktc.page.figures.knob_plots import Setting, knob_worths, parallel_coordinates, worths
from ktc.page.figures.roofline_plot import Place, Roof, roofline
from ktc.page.figures.scales import Scale, over
from ktc.page.figures.trajectory_plot import Measurement, Search, trajectory
from ktc.page.highlighting import LEXERS, highlighted
from ktc.page.plain_texts import markdown

HOSTILE = '</pre><script>alert(1)</script><img src=x onerror="alert(1)">\'"&'
SEARCH = Search([Measurement(1, 4e-6, HOSTILE), Measurement(2, None, HOSTILE)], [(1, 4e-6)], 5e-6, 1e-6)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def parse(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    return tags


def hostile_page() -> Page:
    blocks: list[Block] = [
        Paragraph(HOSTILE, code=HOSTILE),
        Table(HOSTILE, [HOSTILE], [[HOSTILE]], about=HOSTILE),
        Table("", ["code"], [[HOSTILE]], code=(0,)),
        Figure(HOSTILE, lambda width: trajectory(SEARCH, width), HOSTILE),
        *(Code(HOSTILE, HOSTILE, language) for language in (*LEXERS, "none")),
        Difference(HOSTILE, HOSTILE, f"{HOSTILE}\n{HOSTILE}", "ir"),
        Commands([(HOSTILE, HOSTILE)]),
        Folded(HOSTILE, [Beside([Paragraph(HOSTILE)])]),
    ]
    return Page(HOSTILE, [HOSTILE], [Section(HOSTILE, blocks)])


def test_hostile_text_stays_text() -> None:
    tags = parse(html(hostile_page()))
    assert "script" not in tags.tags and "img" not in tags.tags
    names = {name for name, _ in tags.attributes}
    assert not [n for n in names if n.startswith("on") or n in ("style", "src")]
    assert all((value or "").startswith("#") for name, value in tags.attributes if name == "href")
    assert tags.text.count(HOSTILE) >= 20


def test_the_policy_allows_the_style_sheet_and_nothing_else() -> None:
    text = html(hostile_page())
    sheet = re.search(r"<style>(.*?)</style>", text, re.S)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert sheet and policy
    digest = base64.b64encode(hashlib.sha256(sheet[1].encode()).digest()).decode()
    assert policy[1].split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert "unsafe" not in policy[1] and "url(" not in style() and "@import" not in style()


def luminance(colour: str) -> float:
    """Of ``#rrggbb``, by WCAG 2.1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_stands_out_from_what_is_behind_it() -> None:
    """Contrast of 4.5 at least (WCAG 2.1, AA), in the light and in the dark."""
    roots = re.findall(r":root \{(.*?)\}", style(), re.S)
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", r)) for r in roots[:2])
    for colours in (light, dark):
        behind = [colours[n] for n in ("paper", "panel", "added", "gone")]
        for name in ("text", "muted", "link", "keyword", "type", "string", "comment", "number", "name"):
            for paper in behind if name not in ("muted", "link") else behind[:2]:
                low, high = sorted((luminance(colours[name]), luminance(paper)))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (name, paper)


def test_what_is_empty_is_left_out() -> None:
    page = Page("t", [], [Section("Nothing", [Table("x", ["a"], []), Folded("y", [Code("", "", "ir")])])])
    assert "Nothing" not in html(page) and "Nothing" not in markdown(page)


def test_a_number_among_texts_is_set_as_a_text() -> None:
    table = Table("x", ["detail", "gain"], [["refused", ""], ["24.1 µs", "2.0x"]])
    text = html(Page("t", [], [Section("s", [table])]))
    assert '<td class="n" data-label="gain">2.0x</td>' in text and '<th scope="col" class="n">gain' in text
    assert '<td class="name" data-label="detail">24.1 µs</td>' in text


def test_markdown_keeps_text_from_being_markup() -> None:
    text = markdown(Page("a_b*c*", [], [Section("s", [Table("", ["h"], [["x | y"]]), Code("", "```\n", "ir")])]))
    assert text.startswith("# a\\_b\\*c\\*") and "| x \\| y |" in text and "````text\n```\n````" in text


def test_a_difference_shows_what_went_and_came_with_some_around() -> None:
    before = [f"line {i}" for i in range(20)]
    after = [*before[:10], "new", *before[11:]]
    signs = "".join(line.sign for line in difference(before, after))
    assert signs == "@   -+   "


def test_highlighting_keeps_the_lines() -> None:
    text = "/* a\n b */ int x = 1;\n\n"
    for language in LEXERS:
        lines = highlighted(text, language)
        assert [parse(line).text for line in lines] == text.split("\n"), language
        assert all(line.count("<span") == line.count("</span") for line in lines), language


@pytest.mark.parametrize("scale", [Scale(0, 12.5, 0, 100), over([1e-6, 4e-3], 0, 100, log=True), over([5.0], 0, 100)])
def test_ticks_are_round_and_lie_within(scale: Scale) -> None:
    ticks = scale.ticks(5)
    assert 2 <= len(ticks) <= 12 and all(-1e-9 <= scale(t) <= 100 + 1e-9 for t in ticks)
    assert all(float(f"{t:.1e}") == pytest.approx(t) for t in ticks)


def numbers(text: str, tag: str, *names: str) -> list[tuple[float, ...]]:
    found = [dict(re.findall(r'([\w-]+)="([^"]*)"', m)) for m in re.findall(rf"<{tag} ([^>]*)>", text)]
    return [tuple(float(f[n]) for n in names) for f in found]


def test_the_trajectory_shows_every_measurement_and_the_best_verified_so_far() -> None:
    measured = [Measurement(i, s * 1e-6, "") for i, s in enumerate((4, 2, 3, 1), 1)]
    text = trajectory(Search(measured, [(2, 2e-6), (4, 1e-6)], original=4e-6), 800)
    assert text.count('class="seen"') == 4
    line = re.search(r'points="([^"]*)"', text)
    assert line
    places = [tuple(map(float, p.split(","))) for p in line[1].split()]
    assert [y for _, y in places] == sorted(y for _, y in places), "better is lower, and lower is further down"
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(places)), "steps: nothing was known between"


def test_bars_are_as_long_as_their_share() -> None:
    text = bound_bars(
        [Group("s", "1 µs", [Bar("original", 4e-6, 0.25, "before"), Bar("winner", 2e-6, 0.5, "after")])], 800
    )
    (short,), (long,) = numbers(text, "rect", "width")
    assert long == pytest.approx(2 * short, abs=0.2)


def test_the_roof_is_the_lower_of_bandwidth_and_arithmetic() -> None:
    roof = Roof(1e12, 1e13, "f32")
    assert (roof.ridge, roof.at(1), roof.at(100)) == (10, 1e12, 1e13)
    text = roofline(roof, [Place(1, 5e11, "a", "before"), Place(1, 9e11, "a", "after")], 800)
    (_, slow), (_, fast) = numbers(text, "circle", "cx", "cy")
    assert fast < slow and "90 % of the roof" in text


def test_a_knob_is_worth_what_its_worst_value_loses() -> None:
    settings = [Setting({"V": v, "T": t}, v * 1e-6 + t * 1e-9) for v in (1, 2, 4) for t in (32, 64)]
    first, second = worths([*settings, Setting({"V": 8, "T": 32}, None)])
    assert (first.knob, second.knob) == ("V", "T") and first.loss == pytest.approx(4.032 / 1.032)
    assert first.counts == {1: 2, 2: 2, 4: 2} and knob_worths([first, second], 700).count("<rect") == 5
    text = parallel_coordinates(settings, 700)
    assert text.count("<polyline") == 6 and text.count("fastest") == 1


@pytest.mark.parametrize("width", [350, 950])
@pytest.mark.parametrize(
    "draw",
    [
        lambda w: trajectory(SEARCH, w),
        lambda w: bound_bars([Group("a-long-scenario-name-64x1024", "1 µs", [Bar("winner", 1e-6, 0.99, "after")])], w),
        lambda w: roofline(Roof(1e12, 1e13, "f32"), [Place(1, 5e11, "a", "before"), Place(1, 9e11, "a", "after")], w),
        lambda w: parallel_coordinates([Setting({"V": 1, "T": 32}, 1e-6), Setting({"V": 2, "T": 64}, 2e-6)], w),
        lambda w: knob_worths(worths([Setting({"V": 1}, 1e-6), Setting({"V": 2}, 2e-6)]), w),
    ],
)
def test_figures_stay_within_their_width(draw: Callable[[int], str], width: int) -> None:
    text = draw(width)
    assert text.startswith("<svg") and "<title>" in text and 'role="img"' in text
    for words in re.findall(r"<text ([^>]*)>([^<]*)</text>", text):
        at = dict(re.findall(r'([\w-]+)="([^"]*)"', words[0]))
        room = 6.2 * len(words[1])
        start = float(at["x"]) - {"end": room, "middle": room / 2}.get(at.get("text-anchor", ""), 0.0)
        assert start >= -8 and start + room <= width + 8, words
