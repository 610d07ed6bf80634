"""The worker process: tasks as JSON lines on standard input, events as JSON lines on standard output.

``begin`` is sent before the work on a kernel starts, so that the parent knows what a worker died of.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any

from ktc.project.source_trees import Tree

from .assumptions import Builds
from .kernel_scan import Found
from .survey_options import SurveyOptions


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing that a library prints may get between the events

    def send(event: dict[str, Any]) -> None:
        out.write(json.dumps(event) + "\n")
        out.flush()

    options = SurveyOptions.from_json(json.loads(sys.stdin.readline()))
    limit = options.memory_mb << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    tree = Tree(options.root)
    builds = Builds(tree)
    for line in sys.stdin:
        task = json.loads(line)
        known = frozenset(Found(*k) for k in task["known"])
        _one(task["path"], task["start"], known, tree, options, builds, send)
        send({"event": "done"})


def _one(
    path: str, start: int, known: frozenset[Found], tree: Tree, options: SurveyOptions, builds: Builds, send: Any
) -> None:
    from .unit import UnitSurvey, refusals_into

    def begin(k: Found) -> None:
        send({"event": "begin", "kernel": k.name, "file": k.file, "line": k.line})

    trouble: dict[str, Any] = {}
    with refusals_into(trouble, "refusal", 20 * options.timeout_s):
        for record in UnitSurvey(path, tree, options, builds).records(start, begin, known):
            send({"event": "kernel", "record": record})
    if trouble:
        send({"event": "trouble", "refusal": trouble["refusal"]})


if __name__ == "__main__":
    main()
