"""The report page: nothing from outside becomes markup, and the policy allows the page itself."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from html.parser import HTMLParser

from ktc.page import Chart, Page, Point, Table, render

HOSTILE = '</pre><script>alert(1)</script><img src=x onerror="alert(1)">\'"&'


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def parse(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


def hostile_page() -> Page:
    return Page(
        title=HOSTILE,
        summary=[HOSTILE],
        tables=[Table(HOSTILE, [HOSTILE], [[HOSTILE]])],
        charts=[
            Chart(HOSTILE, [Point(0, 2e-6, HOSTILE), Point(1, None, HOSTILE), Point(2, 1e-6, HOSTILE)], 3e-6, 5e-7)
        ],
        before=HOSTILE,
        after=HOSTILE,
        notes=[HOSTILE],
    )


def test_hostile_text_stays_text() -> None:
    tags = parse(render(hostile_page()))
    assert "script" not in tags.tags and "img" not in tags.tags
    assert not [a for a in tags.attributes if a.startswith("on") or a == "style" or a in ("src", "href")]
    assert tags.text.count(HOSTILE) >= 7


def test_the_policy_allows_the_style_sheet_and_nothing_else() -> None:
    html = render(hostile_page())
    style = re.search(r"<style>(.*?)</style>", html, re.S)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert style and policy
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1].split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert "unsafe" not in policy[1]


def test_the_trajectory_shows_every_measurement_and_the_best_so_far() -> None:
    points = [Point(i, s * 1e-6, "") for i, s in enumerate((4, 2, 3, 1))]
    html = render(Page("t", [], charts=[Chart("c", points, baseline=4e-6)]))
    assert html.count("<circle") == 4
    line = re.search(r'points="([^"]*)"', html)
    assert line
    places = [tuple(map(float, p.split(","))) for p in line[1].split()]
    heights = [y for _, y in places]
    assert heights == sorted(heights) and len({round(y) for y in heights}) == 3
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(places)), "steps: nothing was known between"


def test_a_number_among_texts_is_set_as_a_text() -> None:
    html = render(Page("t", [], tables=[Table("x", ["detail", "gain"], [["refused", ""], ["24.1 us", "2.0x"]])]))
    assert "<td>24.1 us</td>" in html and '<td class="n">2.0x</td>' in html and '<th class="n">gain' in html
