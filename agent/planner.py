"""What a planner sees, what it answers, and what became of its answers.

A planner is a function from an :class:`Observation` to a small batch of pass scripts. It proposes text in the pipeline
language and nothing else: parsing, checking, building, verifying and timing are done for it, and what was refused or
turned out wrong or slow comes back in the next observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.support.quantities import duration
from ktc.passes.core.base import Refused, Site

if TYPE_CHECKING:
    from ktc.search.limiters.limiter import Profile
    from ktc.search.target import DeviceInfo

MAX_SCRIPT_CHARS = 2000
MAX_STEPS = 24


@dataclass(frozen=True)
class Proposal:
    """A script with open knobs. ``predicted`` is the expected speed-up over the original (None: no opinion); ``whole``:
    someone asked for these very steps, and none is left out."""

    script: str
    reason: str
    predicted: float | None = None
    planner: str = ""
    whole: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a proposal. ``status``: tuned | refused | duplicate | rejected | withdrawn (built on what was
    rejected) | failed | infeasible.

    ``gain`` is the measured speed-up over the original, ``knobs`` the best values; ``detail`` one sentence;
    ``scenario``: where it was tried, '' for all of them.
    """

    script: str
    status: str
    detail: str = ""
    gain: float | None = None
    knobs: Mapping[str, int] = field(default_factory=dict)
    code: str = ""
    planner: str = ""
    reason: str = ""
    scenario: str = ""
    predicted: float | None = None  # the speed-up that its planner expected


@dataclass(frozen=True)
class Score:
    """Where a run stands on a scenario: seconds of the ``original``, of the ``best`` that is verified, and of the
    ``bound``, with what sets it (0 and '': not known); measurements ``left`` of ``budget``."""

    original: float
    best: float
    bound: float = 0.0
    unit: str = ""
    left: int = 0
    budget: int = 0

    @property
    def of_bound(self) -> float:
        """Share of the bound that is reached; 0 where it is not known."""
        return self.bound / self.best if self.best else 0.0

    def __str__(self) -> str:
        least = f"; {self.unit} allows {duration(self.bound)}: {self.of_bound:.0%}" if self.bound else ""
        best = f"the best that is verified {duration(self.best)} ({self.original / self.best:.2f}x){least}"
        return f"The original takes {duration(self.original)}, {best}. {self.left} of {self.budget} measurements left."


@dataclass(frozen=True)
class Observation:
    """Everything a planner may look at. ``raised`` is the parallel form, when the kernel can be raised at all.

    ``facts`` holds one entry a scenario, of the raised kernel where there is one. ``remembered`` are scripts that won
    on kernels with similar facts. ``find_sites`` asks every pass, which takes a while: who plans without does not wait
    for it. ``attempt`` builds a script without compiling it: the refusal, or None if it applies; ``built`` is the
    kernel after it, where somebody keeps those; ``runs`` says whether any values of its knobs suit the device and the
    sizes. ``profile``: what limits ``leader``, the fastest script so far ('': the original), where that is known;
    ``profile_of`` says it of any that was measured.
    ``rules`` are what models learnt from kernels like this one, each with its record. ``precedent``: how many schedules
    that won on other kernels are better precedents here than that of a script (None: it won nowhere), where any won.
    ``scenario``: the sizes to plan for and what others there are, in words; ``elsewhere``: the fastest there so far.
    ``extents``: how many elements each buffer has at those sizes.
    """

    kernel: Kernel
    raised: Kernel | None
    facts: tuple[KernelFacts, ...]
    device: DeviceInfo
    find_sites: Callable[[], tuple[Site, ...]] = tuple
    history: tuple[Outcome, ...] = ()
    remembered: tuple[Proposal, ...] = ()
    attempt: Callable[[str], Refused | None] = lambda script: None
    built: Callable[[str], Kernel | None] | None = None
    runs: Callable[[str], bool] = lambda script: True
    profile: Profile | None = None
    leader: str = ""
    score: Score | None = None
    rules: tuple[str, ...] = ()
    profile_of: Callable[[str], Profile | None] = lambda script: None
    precedent: Callable[[str], int | None] | None = None
    scenario: str = ""
    elsewhere: tuple[str, ...] = ()
    extents: Mapping[str, int] = field(default_factory=dict)

    @property
    def sites(self) -> tuple[Site, ...]:
        """Every step that applies to the kernel as it is."""
        return self.find_sites()

    @property
    def limiters(self) -> tuple[str, ...]:
        """Names of what limits the fastest script so far, the strongest first."""
        return tuple(x.name for x in self.profile.limiters) if self.profile is not None else ()


class Planner(Protocol):
    """A source of proposals."""

    name: str

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        """At most ``k`` new scripts, most promising first; an empty list when it has no further idea."""
        ...


def enough(planner: Planner, observation: Observation) -> str:
    """Why ``planner`` thinks that nothing more is worth a measurement; '' to go on, and of planners that never say."""
    says: Callable[[Observation], str] | None = getattr(planner, "enough", None)
    return says(observation) if says is not None else ""


def reads_bound(planner: Planner) -> bool:
    """Whether ``planner`` goes by how far from the bound a scenario is, from its first proposal on."""
    return bool(getattr(planner, "reads_bound", False))


def foreseen(planner: Planner, observation: Observation, k: int) -> Iterator[Proposal]:
    """What ``planner`` will come to first of ``k``, before anything is measured, as far as it can say for nothing."""
    ideas: Callable[[Observation, int], Iterator[Proposal]] | None = getattr(planner, "ideas", None)
    says: Callable[[Observation, int], Iterator[Proposal]] | None = getattr(planner, "foreseen", None)
    if says is not None:
        yield from says(observation, k)
    elif ideas is not None:
        yield from ideas(observation, k)


def proposals(planner: Planner, observation: Observation, k: int) -> Iterator[Proposal]:
    """What ``planner`` proposes, one after another: of one that has ``ideas``, each as soon as it has come to it."""
    ideas: Callable[[Observation, int], Iterator[Proposal]] | None = getattr(planner, "ideas", None)
    yield from ideas(observation, k) if ideas is not None else planner.propose(observation, k)
