"""Lane programs as C statements: one constant per instruction, in order, named after the value.

In: a program and the C texts of its inputs.  Out: statements and the text of the result.  Each statement is exactly one
instruction of `ir.lanes`, so that the C compiler, told not to contract, computes the bits the interpreter computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.codegen.native.scalars import float_text
from pypto.dtypes import DataType, nearest
from pypto.errors import InternalError
from pypto.ir.lanes import Instr, LaneProgram

__all__ = ["LANE_C", "emit_program", "lane_const"]

LANE_C = {
    "f32": "float",
    "f64": "double",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "b8": "uint8_t",
    "mask": "int",
    **{f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "band": "&", "bor": "|"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_CALLS = {"sqrt": "sqrt", "rint": "rint", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "abs": "fabs"}
_DIVISIONS = {"tdiv": "truncdiv", "fdiv": "floordiv", "fmod": "floormod"}


def lane_const(value: float, type: str) -> str:
    """A C literal of a lane type; a half's value is given as its bits."""
    if type in ("f32", "f64"):
        return float_text(float(value), "f" if type == "f32" else "")
    if type in ("f16", "bf16"):
        rounded = nearest(float(value), DataType.FP16 if type == "f16" else DataType.BF16)
        return f"pp_f32_to_{type}({float_text(rounded)})"
    n = int(value)
    if type == "i64":
        return "INT64_MIN" if n == -(1 << 63) else f"INT64_C({n})"
    if type == "u64":
        return f"UINT64_C({n})"
    if type == "i32" and n == -(1 << 31):
        return "INT32_MIN"
    return f"{n}u" if type == "u32" else str(n)


def emit_program(program: LaneProgram, inputs: Sequence[str], prefix: str) -> tuple[list[str], str]:
    """The statements of a program, its values named `<prefix><number>`, and the text of the result."""
    texts = list(inputs)
    lines: list[str] = []
    for i, instr in enumerate(program.instrs):
        args = [texts[a] for a in instr.args]
        types = [program.type_of(a) for a in instr.args]
        text = _instruction(instr, args, types)
        if instr.op == "const":
            texts.append(f"({text})" if text.startswith("-") else text)
            continue
        name = f"{prefix}{i}"
        lines.append(f"const {LANE_C[instr.type]} {name} = {text};")
        texts.append(name)
    return lines, texts[program.result]


def _instruction(instr: Instr, a: Sequence[str], types: Sequence[str]) -> str:
    op, t = instr.op, instr.type
    if op == "const":
        return lane_const(instr.imm if instr.imm is not None else 0, t)
    if op in _INFIX:
        # C computes narrow integers as int: the assignment brings the result back to its width.
        return f"{a[0]} {_INFIX[op]} {a[1]}"
    if op in _COMPARE:
        return f"{a[0]} {_COMPARE[op]} {a[1]}"
    if op == "select":
        return f"{a[0]} ? {a[1]} : {a[2]}"
    if op == "fma":
        return f"__builtin_fmaf({a[0]}, {a[1]}, {a[2]})"
    if op == "cremf":
        return f"pp_fmod_f32({a[0]}, {a[1]})"
    if op in _CALLS:
        return f"__builtin_{_CALLS[op]}{'f' if t == 'f32' else ''}({a[0]})"
    if op == "neg":
        return f"-{a[0]}"
    if op == "bnot":
        return f"!{a[0]}"
    if op == "not":
        return f"~{a[0]}"
    if op in _DIVISIONS:
        return f"pp_{_DIVISIONS[op]}_{t}({a[0]}, {a[1]})"
    if op in ("shl", "shr"):
        return _shift(op, t, a)
    if op == "bits":
        return _bits(a[0], types[0], t)
    if op == "cvt":
        return _convert(a[0], types[0], t)
    raise InternalError(f"no C form of the lane instruction {op}")


def _shift(op: str, t: str, a: Sequence[str]) -> str:
    """Amounts outside 0..width-1 shift everything out; C leaves them undefined."""
    x, n = a
    width = int(t[1:])
    if n.isdecimal() and int(n) < width:
        return f"({LANE_C[t]})(({LANE_C['u' + t[1:]]}){x} << {n})" if op == "shl" else f"{x} >> {n}"
    return f"pp_{op}_{t}({x}, {n})"


_SIXTEEN = ("f16", "bf16", "u16", "i16")


def _bits(text: str, source: str, target: str) -> str:
    if source in _SIXTEEN and target in _SIXTEEN:
        return f"({LANE_C[target]}){text}"
    if source[0] in "iu" and target[0] in "iu":
        return f"({LANE_C[target]}){text}"
    return f"pp_bits_{source}_{target}({text})"


def _convert(text: str, source: str, target: str) -> str:
    if source in ("f16", "bf16"):
        wide = f"pp_{source}_to_f32({text})"
        return wide if target == "f32" else _convert(f"({wide})", "f32", target)
    if target in ("f16", "bf16"):
        return f"pp_f32_to_{target}({text if source == 'f32' else f'(float)({text})'})"
    if source[0] == "f" and target in ("i8", "u8", "i16", "u16"):
        # By way of 32 bits: the compilers vectorize that conversion, the narrow ones not.
        return f"({LANE_C[target]})(int32_t){text}"
    if target == "mask":
        return f"{text} != 0"
    return f"({LANE_C[target]}){text}"
