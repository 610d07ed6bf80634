"""``asm`` statements: lowered as what they compute where that is known exactly, else carried as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktc.ir.frontend.library.prelude import function_of
from ktc.ir.frontend.lowering.control.returns import Returns
from ktc.ir.frontend.meaning.values import ChoicePtr, NullVal, PtrVal, RVal, Value, VarPlace
from ktc.ir.frontend.syntax.cxx_ast import Asm
from ktc.ir.nodes import Const, Decl, InlineAsm, Stmt, Sym, Var, fresh
from ktc.ir.types import Scalar, Type

from .ptx_access import understood_access
from .ptx_functions import FILE, Understood, understood, unescaped
from .ptx_types import CONSTRAINTS
from .shared_addresses import shared_place


class InlineAssembly(Returns):
    """Inline PTX."""

    waits = False
    """Whether loads that a loop may be waiting by stay as they are."""
    may_wait: set[Sym]
    """What such loads have been lowered into."""
    shared_places = False
    """Whether an address in shared memory has been followed to its pointer."""

    def asm(self, node: Asm, pragma: Any) -> None:
        before = self.out
        with self.capture() as out:
            known = self._computed(node) or self._moved(node, before)
        if known:
            for s in out:
                self.emit(s)
            return
        outputs, back = [], []
        for constraint, e in node.outputs:
            place = self.eval(e)
            t = self.type_of(place)
            if isinstance(place, VarPlace):
                outputs.append((constraint, place.sym))
                continue
            sym = fresh("asm_out", t)
            self.emit(Decl(sym, self.rvalue(place, node).expr if "+" in constraint else None, loc=self.loc))
            outputs.append((constraint, sym))
            back.append((place, sym))
        inputs = []
        for constraint, e in node.inputs:
            v = self.load(self.eval(e), node)
            if isinstance(v, PtrVal | ChoicePtr | NullVal) and constraint == "l":
                v = self.address_bits(v, node)
            if not isinstance(v, RVal):
                self.fail("E-UNSUPPORTED-ASM", "an address as an operand of inline PTX", node,
                          hint="use the CUDA intrinsic or plain C++ for this access")  # fmt: skip
            inputs.append((constraint, v.expr))
        memory = any(what == "memory" for what, _ in node.clobbers)
        self.emit(InlineAsm(node.text, tuple(outputs), tuple(inputs), node.volatile, memory, loc=self.loc))
        for place, sym in back:
            self.store(place, RVal(Var(sym)), node)

    def _computed(self, node: Asm) -> bool:
        """Emit what ``node`` computes; False if that is not known, or an operand is not what its constraint says."""
        operands = [*node.outputs, *node.inputs]
        found = understood(node.text, tuple(c for c, _ in operands), len(node.outputs))
        if found is None:
            return False
        places = [self.stable(self.eval(e)) for _, e in node.outputs]
        values = {n: places[n] if n < len(places) else self.eval(operands[n][1]) for n in found.operands}
        types = {n: self.type_of(p) for n, p in enumerate(places)} | {n: self.type_of(v) for n, v in values.items()}
        loaded = {n: self.load(values[n]) for n in found.operands if found.returns or n >= len(places)}
        if not all(isinstance(v, RVal) for v in loaded.values()):
            return False
        if not all(_fits(operands[n][0], t, loaded.get(n)) for n, t in types.items()):
            return False
        entity = function_of(found.text, FILE)
        if found.returns:
            result = self.call_entities([entity], None, [loaded[n] for n in found.operands], node, self.file_scope())
            self.store(places[0], result, node)
            return True
        self._through_registers(found, places, loaded, entity, node)
        return True

    def _moved(self, node: Asm, before: Sequence[Stmt]) -> bool:
        """Emit the load or store that ``node`` is; False if it is none, moves other types, or if nothing ``before`` it
        in its block says where in shared memory it is."""
        operands = [*node.outputs, *node.inputs]
        found = understood_access(unescaped(node.text), tuple(c for c, _ in operands), node.volatile)
        if found is None or any("+" in c for c, _ in node.outputs) or (found.may_wait and self.waits):
            return False
        address: Value | None = self.load(self.eval(operands[found.address][1]), node)
        if found.space == "shared":
            address = shared_place(address, before)
            self.shared_places |= address is not None
        places = [self.stable(self.eval(operands[n][1])) for n in found.registers]
        loaded = [self.load(p) for p in places]
        more = [self.load(self.eval(operands[n][1])) for n in found.more]
        if not isinstance(address, PtrVal) or not all(isinstance(v, RVal) for v in (*loaded, *more)):
            return False
        letters = [operands[n][0] for n in (*found.registers, *found.more)]
        values = zip(letters, (*map(self.type_of, places), *map(self.type_of, more)), (*loaded, *more))
        if not all(_fits(c, t, v) for c, t, v in values):
            return False
        entity = function_of(found.text, FILE)
        if not found.loads:
            self.call_entities([entity], None, [*loaded, address, *more], node, self.file_scope())
            return True
        registers = []
        for n, c in enumerate(letters[: len(places)]):
            registers.append(VarPlace(fresh(f"out{n}", CONSTRAINTS[c.lstrip("=&")][1])))
            self.emit(Decl(registers[n].sym, None, loc=self.loc))
        if found.may_wait:
            self.may_wait |= {r.sym for r in registers}
        self.call_entities([entity], None, [*registers, address, *more], node, self.file_scope())
        for place, register in zip(places, registers):
            self.store(place, self.load(register), node)
        return True

    def _through_registers(
        self, found: Understood, places: list[Value], inputs: dict[int, Value], entity: Any, node: Asm
    ) -> None:
        """Several outputs: the statement works on registers of its own, copied in and out."""
        registers: dict[int, Value] = {}
        for n, place in enumerate(places):
            t = found.output_types[n]
            old = (
                self.convert(self.rvalue(place, node), t, "implicit", node).expr if "+" in node.outputs[n][0] else None
            )
            sym = fresh(f"out{n}", t)
            self.emit(Decl(sym, old, loc=self.loc))
            registers[n] = VarPlace(sym)
        args = [registers.get(n) or inputs[n] for n in found.operands]
        self.call_entities([entity], None, args, node, self.file_scope())
        for n, place in enumerate(places):
            self.store(place, self.load(registers[n]), node)


def _fits(constraint: str, t: Type | None, value: Value | None) -> bool:
    """Whether an operand of type ``t`` may stand for the register that ``constraint`` asks for."""
    letter = constraint.lstrip("=+&")
    if letter == "n":
        return isinstance(value, RVal)
    is_literal = isinstance(value, RVal) and isinstance(value.expr, Const)
    want = CONSTRAINTS[letter][1]
    return isinstance(t, Scalar) and t.is_float == want.is_float and (t.bits == want.bits or (is_literal and t.is_int))
