"""The pass protocol: named, checked rewrites of a kernel that refuse with data instead of raising.

A pass module reads top to bottom: what it does (with a before -> after listing), the dataclass of its arguments, one
:class:`Pass` subclass with the name the pipeline language uses, the checks that say whether it may, the rewrite.
Registration is by the table in ``passes/core/catalogue.py`` (third parties: the ``ktc.passes`` entry point).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from ktc.ir.kernel import Kernel

from .argument_reading import Parameter, parameters, read, signature
from .arguments import NoArguments
from .refusals import Refusal, Refused, Result, attempted
from .script import Arg, DistSpec, KnobRef, LevelSpec, Script, Step

__all__ = [
    "Arg", "DistSpec", "KnobRef", "LevelSpec", "NoArguments", "Parameter", "Pass", "Refusal", "Refused", "Result",
    "Script", "Site", "Step",
]  # fmt: skip

A = TypeVar("A")


@dataclass(frozen=True)
class Site:
    """A place where a pass applies: the step, ready to be applied, and why one would."""

    step: Step
    doc: str = ""

    def __repr__(self) -> str:
        return f"Site({str(self.step)!r}, {self.doc!r})"


class Pass(Generic[A]):
    """Base class: ``class Unroll(Pass[Arguments])``, with the dataclass of its arguments. Subclasses are stateless."""

    name: ClassVar[str]
    summary: ClassVar[str]
    arguments: ClassVar[type[Any]] = NoArguments
    refusals: ClassVar[tuple[str, ...]] = ()
    flags: ClassVar[tuple[str, ...]] = ()  # reassociates, fast_math
    sequences: ClassVar[bool] = False  # takes a sequence of launches as a whole, instead of its launches one by one

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__dict__.get("__orig_bases__", ()):
            if get_origin(base) is Pass:
                (cls.arguments,) = get_args(base)

    def __repr__(self) -> str:
        return f"<pass {self.name}: {self.summary}>"

    # ------------------------------------------------------------------------------------------- what a pass implements

    def sites(self, kernel: Kernel) -> list[Site]:
        """Every place where the pass applies, with suggested arguments: the agent's action space."""
        raise NotImplementedError

    def apply(self, kernel: Kernel, args: A) -> Result:
        """The rewritten kernel. Never mutates.

        Raises:
            Refusal: for any reason that the user can act on.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ what others call

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its arguments, as their dataclass declares them."""
        return parameters(self.arguments)

    @property
    def signature(self) -> str:
        """The names of its arguments, those that may be left out in brackets."""
        return signature(self.parameters)

    @property
    def knobs(self) -> tuple[str, ...]:
        """The knobs that its arguments are by default: ``V: 1,2,4,8: elements a vector access moves``."""
        return tuple(str(k) for p in self.parameters for k in p.knobs)

    def read(self, given: Mapping[str, Arg]) -> A:
        """The arguments that a step gives.

        Raises:
            Refusal: one is missing, or cannot be what it is.
        """
        args: A = read(self.arguments, self.parameters, given, self.name)
        return args

    def run(self, kernel: Kernel, given: Mapping[str, Arg] | None = None) -> Result | Refused:
        """The rewritten kernel, or why not. Never raises for a user's reason."""
        return attempted(lambda: self.apply(kernel, self.read(given or {})))

    def step(self, **args: Arg) -> Step:
        """The step that applies this pass with ``args``."""
        return Step(self.name, tuple(args.items()))
