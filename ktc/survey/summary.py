"""From records of kernels per translation unit to one record a kernel, totals and counts of refusals."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ktc.emission import PORT_PROFILES
from ktc.project.source_trees import Tree, is_header

from .pool import FileResult, OnDone, run_files
from .survey_options import SurveyOptions
from .unit import Record


@dataclass(frozen=True)
class Summary:
    """``kernels``: one record each, in order of file and line. ``troubles``: files that could not be read at all."""

    options: SurveyOptions
    files: tuple[str, ...]
    kernels: tuple[Record, ...]
    troubles: dict[str, Record]

    def totals(self) -> dict[str, Any]:
        ks = self.kernels
        out: dict[str, Any] = {"files": len(self.files), "kernels": len(ks)}
        out["parsed"] = sum(k["parsed"] for k in ks)
        out["lowered"] = sum(k["lowered"] for k in ks)
        first = self.options.backends[0]
        out["compiled"] = self._backend(first)["compiled"]
        out["assumed"] = sum(k["parsed"] and bool(k["assumed"]) for k in ks)
        out["attention"] = sum("attention" in k for k in ks)
        out["dialects"] = dict(sorted(Counter(k.get("dialect", "unknown") for k in ks).items()))
        out["backends"] = {b: self._backend(b) for b in self.options.backends}
        return out

    def _backend(self, name: str) -> dict[str, Any]:
        outcomes = [k["backends"].get(name, {}) for k in self.kernels]
        compiled = sum(o.get("compiled") is True for o in outcomes) if self.options.compile else None
        out: dict[str, Any] = {"printed": sum(bool(o.get("printed")) for o in outcomes), "compiled": compiled}
        profiles = Counter(o["profile"] for o in outcomes if o.get("printed"))
        return out | ({"profiles": dict(sorted(profiles.items()))} if name in PORT_PROFILES else {})

    def refusals(self) -> dict[str, int]:
        """Code to number of kernels, most frequent first. A kernel counts once: where it stopped."""
        codes = Counter(k["refusal"]["code"] for k in self.kernels if "refusal" in k)
        codes.update(t["code"] for t in self.troubles.values())
        return dict(sorted(codes.items(), key=lambda item: (-item[1], item[0])))

    def to_json(self) -> dict[str, Any]:
        by_file: dict[str, list[Record]] = {f: [] for f in self.files}
        for k in self.kernels:
            by_file.setdefault(k["file"], []).append({key: v for key, v in k.items() if key != "file"})
        files = [
            {"file": f, "kernels": ks, **({"refusal": self.troubles[f]} if f in self.troubles else {})}
            for f, ks in sorted(by_file.items())
        ]
        return {"totals": self.totals(), "refusals": self.refusals(), "files": files}


def survey(options: SurveyOptions, jobs: int = 1, done: OnDone = lambda n, total: None) -> Summary:
    """Survey every kernel of the tree ``options.root``.

    Sources are read first; a header with kernels that no source includes is then read by itself, and where that is
    not enough as part of a header that includes it.
    """
    tree = Tree(options.root)
    units = [f for f in tree.with_kernels if not is_header(f)]
    headers = [f for f in tree.with_kernels if is_header(f)]
    results = run_files(units, options, jobs, done) if units else []
    merged = _merge(results)
    left = [h for h in headers if not any(k["file"] == h for k in merged)]
    more = run_files(left, options, jobs, lambda n, total: done(len(units) + n, len(units) + total)) if left else []
    results += more
    refused = {k["file"] for k in _merge(results) if not k["parsed"] and is_header(k["file"])}
    around, n = tree.around(refused), len(units) + len(left)
    results += run_files(around, options, jobs, lambda i, total: done(n + i, n + total)) if around else []
    troubles = {_below(tree.root, r.path): r.trouble for r in results if r.trouble is not None}
    kernels = [_relative(tree.root, k) for k in _merge(results)]
    kernels.sort(key=lambda k: (k["file"], k["line"], k["kernel"]))
    return Summary(options, tuple(_below(tree.root, f) for f in tree.with_kernels), tuple(kernels), troubles)


def _rank(k: Record) -> tuple[int, ...]:
    done = [bool(o.get("printed")) + bool(o.get("compiled")) for o in k["backends"].values()]
    return (bool(k["parsed"]), bool(k["lowered"]), sum(done), -len(k["assumed"]))


def _merge(results: list[FileResult]) -> list[Record]:
    """One record for each definition: a kernel that several sources include is as good as its best reading."""
    best: dict[tuple[str, int, str], Record] = {}
    for result in results:
        for k in result.records:
            key = (os.path.abspath(k["file"]), k["line"], k["kernel"])
            if key not in best or _rank(k) > _rank(best[key]):
                best[key] = k | {"file": key[0]}
    return list(best.values())


def _below(root: str, path: str) -> str:
    base = root if os.path.isdir(root) else os.path.dirname(root)
    return os.path.relpath(path, base) if os.path.isabs(path) else path


def _relative(root: str, value: Any) -> Any:
    """``value`` with paths below ``root`` made relative to it."""
    if isinstance(value, dict):
        return {k: _relative(root, v) for k, v in value.items()}
    if isinstance(value, list):
        return [_relative(root, v) for v in value]
    base = (root if os.path.isdir(root) else os.path.dirname(root)).rstrip("/") + "/"
    return value.replace(base, "") if isinstance(value, str) else value
