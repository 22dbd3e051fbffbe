"""Reads `.pto` text: modules, functions, operations with their operands, types, attributes and regions.

In: text.  Out: a tree of plain records; `PtoError` with the line for anything that is not of the form.  Written from the
description of the text alone: it shares nothing with what prints it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NAME = r"%[A-Za-z0-9_$.\-]+"
_LOC = re.compile(r'\s+loc\("(?:[^"\\]|\\.)*":\d+:\d+\)$')


class PtoError(Exception):
    """What is wrong, and in which line."""


@dataclass
class Op:
    """One operation: `operands` and `types` go together, as do `results` and `result_types`."""

    name: str
    line: int
    operands: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    result_types: list[str] = field(default_factory=list)
    outs: list[str] = field(default_factory=list)
    out_types: list[str] = field(default_factory=list)
    attrs: dict[str, str] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)  # named operand lists
    regions: list[Region] = field(default_factory=list)


@dataclass
class Region:
    """Operations with the values that the region's head defines."""

    arguments: list[tuple[str, str]] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


@dataclass
class Func:
    name: str
    arguments: list[tuple[str, str]]
    kind: str
    body: Region


@dataclass
class Module:
    arch: str
    functions: list[Func]


def split(text: str) -> list[str]:
    """The parts between commas that no bracket, brace or quote encloses."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in "<([{":
            depth += 1
        elif c in ")]}" or (c == ">" and text[i - 1] != "-"):
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


class _Lines:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.at = 0

    @property
    def text(self) -> str:
        return self.lines[self.at].strip()

    def fail(self, what: str) -> PtoError:
        return PtoError(f"line {self.at + 1}: {what}: {self.lines[self.at].strip()[:160]}")

    def take(self) -> str:
        line = _LOC.sub("", self.lines[self.at].strip())
        self.at += 1
        return line


def parse(text: str) -> Module:
    """A module; each operation stands on a line of its own."""
    r = _Lines(text.rstrip("\n"))
    head = re.fullmatch(r'module attributes \{pto\.target_arch = "(\w+)"\} \{', r.take())
    if head is None:
        r.at -= 1
        raise r.fail("no module")
    functions = []
    while r.text != "}":
        functions.append(_function(r))
    r.take()
    if r.at != len(r.lines):
        raise r.fail("text behind the module")
    return Module(head[1], functions)


def _function(r: _Lines) -> Func:
    m = re.fullmatch(
        r"func\.func @([A-Za-z_]\w*)\((.*?)\)(?: attributes \{pto\.kernel_kind = #pto\.kernel_kind<(cube|vector)>\})? \{", r.text
    )
    if m is None:
        raise r.fail("no function")
    r.take()
    arguments = []
    for a in split(m[2]):
        name, type_ = _pair(r, a, ": ")
        arguments.append((name, type_))
    body = Region(arguments)
    while r.text != "return":
        body.ops.append(_operation(r))
    r.take()
    _expect(r, "}")
    return Func(m[1], arguments, m[3] or "", body)


def _expect(r: _Lines, text: str) -> None:
    if r.text != text:
        raise r.fail(f"expected {text!r}")
    r.take()


def _pair(r: _Lines, text: str, by: str) -> tuple[str, str]:
    left, found, right = text.partition(by)
    if not found:
        raise r.fail(f"expected {by!r} in {text!r}")
    return left.strip(), right.strip()


def _body(r: _Lines, arguments: list[tuple[str, str]] | None = None) -> Region:
    region = Region(arguments or [])
    while not r.text.startswith("}"):
        region.ops.append(_operation(r))
    return region


def _operation(r: _Lines) -> Op:
    for form in (_for, _while, _if):
        made = form(r)
        if made is not None:
            return made
    at = r.at + 1
    line = r.take()
    for pattern, build in _FORMS:
        m = pattern.fullmatch(line)
        if m is not None:
            op = Op("", at)
            build(r, op, m)
            if any(not re.fullmatch(NAME, v) for v in (*op.operands, *op.outs, *op.results)):
                r.at -= 1
                raise r.fail("an operand is no value")
            return op
    r.at -= 1
    raise r.fail("no operation")


# -- regions -------------------------------------------------------------------------------------------------------


def _results(text: str | None) -> list[str]:
    return split(text) if text else []


def _for(r: _Lines) -> Op | None:
    m = re.fullmatch(
        rf"(?:(.+?) = )?scf\.for ({NAME}) = ({NAME}) to ({NAME}) step ({NAME})(?: iter_args\((.*?)\) -> \((.*?)\))? \{{", r.text
    )
    if m is None:
        return None
    op = Op("scf.for", r.at + 1, [m[3], m[4], m[5]], ["index"] * 3, _results(m[1]))
    r.take()
    carries = [_pair(r, p, " = ") for p in split(m[6] or "")]
    op.result_types = split(m[7] or "")
    op.operands += [b for _, b in carries]
    op.types += op.result_types
    names = [(a, t) for (a, _), t in zip(carries, op.result_types, strict=True)]
    op.regions = [_body(r, [(m[2], "index"), *names])]
    _expect(r, "}")
    return op


def _while(r: _Lines) -> Op | None:
    m = re.fullmatch(r"(?:(.+?) = )?scf\.while(?: \((.*?)\))? : \((.*?)\) -> \((.*?)\) \{", r.text)
    if m is None:
        return None
    types = split(m[3])
    op = Op("scf.while", r.at + 1, [], types, _results(m[1]), split(m[4]))
    r.take()
    carries = [_pair(r, p, " = ") for p in split(m[2] or "")]
    op.operands = [b for _, b in carries]
    before = _body(r, [(a, t) for (a, _), t in zip(carries, types, strict=True)])
    _expect(r, "} do {")
    arguments: list[tuple[str, str]] = []
    block = re.fullmatch(r"\^bb0\((.*)\):", r.text)
    if block is not None:
        arguments = [_pair(r, a, " : ") for a in split(block[1])]
        r.take()
    op.regions = [before, _body(r, arguments)]
    _expect(r, "}")
    return op


def _if(r: _Lines) -> Op | None:
    m = re.fullmatch(rf"(?:(.+?) = )?scf\.if ({NAME})(?: -> \((.*?)\))? \{{", r.text)
    if m is None:
        return None
    op = Op("scf.if", r.at + 1, [m[2]], ["i1"], _results(m[1]), split(m[3] or ""))
    r.take()
    op.regions = [_body(r)]
    if r.text == "} else {":
        r.take()
        op.regions.append(_body(r))
    _expect(r, "}")
    return op


# -- single operations ---------------------------------------------------------------------------------------------


def _attributes(r: _Lines, text: str) -> dict[str, str]:
    return dict(_pair(r, a, " = ") for a in split(text))


def _instruction(r: _Lines, op: Op, m: re.Match[str]) -> None:
    op.name = m["name"]
    if m["ins"] is not None:
        given, types = _pair(r, m["ins"], " : ")
        inside = re.fullmatch(r"(.*?),? ?\{(.*)\}", given)
        if inside is not None:
            given = inside[1]
            op.attrs |= _attributes(r, inside[2])
        op.operands, op.types = split(given), split(types)
        if op.types and op.types[-1].startswith('"'):
            op.attrs["axis"] = op.types.pop()
    outs, types = _pair(r, m["outs"], " : ")
    op.outs, op.out_types = split(outs), split(types)
    if m["after"]:
        op.attrs |= _attributes(r, m["after"])


def _alloc(r: _Lines, op: Op, m: re.Match[str]) -> None:
    op.name, op.results, op.result_types = "pto.alloc_tile", [m["result"]], [m["type"]]
    for key, type_ in (("addr", "i64"), ("valid_row", "index"), ("valid_col", "index")):
        if m[key]:
            op.groups[key] = [m[key]]
            op.operands.append(m[key])
            op.types.append(type_)


def _subview(r: _Lines, op: Op, m: re.Match[str]) -> None:
    op.name, op.results, op.result_types = "pto.subview", [m["result"]], [m["to"]]
    op.groups = {"offsets": split(m["offsets"]), "valid": split(m["valid"] or "")}
    op.attrs["sizes"] = m["sizes"]
    op.operands = [m["source"], *op.groups["offsets"], *op.groups["valid"]]
    op.types = [m["from"], *["index"] * (len(op.operands) - 1)]


def _tensor_view(r: _Lines, op: Op, m: re.Match[str]) -> None:
    op.name, op.results, op.result_types = "pto.make_tensor_view", [m["result"]], [m["type"]]
    op.groups = {"shape": split(m["shape"]), "strides": split(m["strides"])}
    op.attrs["layout"] = m["layout"]
    op.operands = [m["source"], *op.groups["shape"], *op.groups["strides"]]
    op.types = ["", *["index"] * (len(op.operands) - 1)]


def _partition(r: _Lines, op: Op, m: re.Match[str]) -> None:
    op.name, op.results, op.result_types = "pto.partition_view", [m["result"]], [m["to"]]
    op.groups = {"offsets": split(m["offsets"]), "sizes": split(m["sizes"])}
    op.operands = [m["source"], *op.groups["offsets"], *op.groups["sizes"]]
    op.types = [m["from"], *["index"] * (len(op.operands) - 1)]


def _named(name: str, operands: str, types: str, result_type: str = "") -> object:
    """A form whose groups are named: comma lists of operands and types, and the type of the result."""

    def build(r: _Lines, op: Op, m: re.Match[str]) -> None:
        op.name = m["op"] if name == "" else name
        given = m.groupdict()
        op.operands = [v for k in operands.split() for v in split(given.get(k) or "")]
        op.types = [t for k in types.split() for t in (split(given[k]) if k in given else [k])]
        if given.get("result"):
            op.results, op.result_types = [given["result"]], [given.get(result_type, result_type)]
        op.attrs = {k: v for k, v in given.items() if k in ("value", "predicate", "upper") and v is not None}

    return build


def _arith(r: _Lines, op: Op, m: re.Match[str]) -> None:
    op.name, op.operands, op.results = m["op"], split(m["operands"]), [m["result"]]
    op.attrs = {"predicate": m["predicate"]} if m["predicate"] else {}
    op.types = [m["type"]] * len(op.operands)
    op.result_types = ["i1" if op.name in ("arith.cmpi", "arith.cmpf") else m["type"]]
    if op.name == "arith.select":
        op.types[0] = "i1"


def _moved_pointer(r: _Lines, op: Op, m: re.Match[str]) -> None:
    op.name, op.operands, op.results = "pto.addptr", [m["a"], m["b"]], [m["result"]]
    op.types, op.result_types = [f"!pto.ptr<{m['element']}>", "index"], [f"!pto.ptr<{m['element']}>"]


def _event(r: _Lines, op: Op, m: re.Match[str]) -> None:
    op.name = m["op"]
    op.operands = [m["a"]] if m["a"] else []
    op.types = ["index"] * len(op.operands)


def _pipe(r: _Lines, op: Op, m: re.Match[str]) -> None:
    """Attributes in braces, then operands, or a push's and a pop's the other way round."""
    given = m.groupdict()
    op.name = f"pto.{m['op']}"
    op.attrs = _attributes(r, m["attrs"])
    for part in split(given.get("named") or ""):
        key, value = _pair(r, part, " = ")
        name, type_ = _pair(r, value, " : ")
        op.groups[key] = [name]
        op.operands.append(name)
        op.types.append(type_)
    if given.get("pushed"):
        op.operands, op.types = [m["pushed"]], [m["tile"]]
    elif given.get("valid"):
        op.operands = split(m["valid"])
        op.types = ["index"] * len(op.operands)
    if given.get("result"):
        op.results, op.result_types = [m["result"]], [m["type"]]


_R = rf"(?P<result>{NAME}) = "
_TILE = r"(?P<tile>!pto\.tile_buf<.*>)"
_ELEMENT = rf"(?P<a>{NAME})\[(?P<b>{NAME})\] : (?P<pointer>!pto\.ptr<\w+>)"
_ARRAY = r"(?P<array>!pto\.local_array<\d+x\w+>)"
_FORMS = [
    (
        re.compile(
            r"pto\.syncall\(\) mode = #pto\.sync_all_mode<hard>, core_type = #pto\.sync_core_type<(?:mix|aic_only|aiv_only)>"
        ),
        _named("pto.syncall", "", ""),
    ),
    (
        re.compile(
            rf"(?P<op>pto\.sync\.(?:set|wait)) <PIPE_(?:MTE[123]|M|V|S|FIX|ALL)>, (?:1?\d|(?P<a>{NAME}))"
            r"(?: \{(?:ffts_mode = [012] : i32)?"
            r"(?:, )?(?:core_type = #pto\.sync_core_type<(?:mix|aic_only|aiv_only)>)?\})?"
        ),
        _event,
    ),
    (re.compile(rf"pto\.set_ffts (?P<a>{NAME}) : (?P<type>!pto\.ptr<\w+>)"), _named("pto.set_ffts", "a", "type")),
    (
        re.compile(_R + r"pto\.(?P<op>reserve_buffer|import_reserved_buffer) \{(?P<attrs>.*)\} -> (?P<type>i32)"),
        _pipe,
    ),
    (re.compile(r"pto\.(?P<op>ai[cv]_initialize_pipe) \{(?P<attrs>.*?)\} \((?P<named>.*)\)"), _pipe),
    (re.compile(rf"pto\.(?P<op>tpush_to_ai[cv])\((?P<pushed>{NAME}) : {_TILE}\) \{{(?P<attrs>.*)\}}"), _pipe),
    (
        re.compile(
            _R + r"pto\.(?P<op>tpop_from_ai[cv])(?:\((?P<valid>.*?)\))? \{(?P<attrs>.*?)\} -> (?P<type>!pto\.tile_buf<.*>)"
        ),
        _pipe,
    ),
    (re.compile(r"pto\.(?P<op>tfree_from_ai[cv]) \{(?P<attrs>.*)\}"), _pipe),
    (re.compile(_R + rf"pto\.declare_local_array -> {_ARRAY}"), _named("pto.declare_local_array", "", "", "array")),
    (
        re.compile(_R + rf"pto\.local_array_get (?P<a>{NAME})\[(?P<b>{NAME})\] : {_ARRAY} -> (?P<type>\w+)"),
        _named("pto.local_array_get", "a b", "array index", "type"),
    ),
    (
        re.compile(rf"pto\.local_array_set (?P<a>{NAME})\[(?P<b>{NAME})\], (?P<v>{NAME}) : {_ARRAY}, (?P<type>\w+)"),
        _named("pto.local_array_set", "a b v", "array index type"),
    ),
    (re.compile(_R + r"arith\.constant (?P<value>\S+) : (?P<type>\w+|vector<4xi16>)"), _named("arith.constant", "", "", "type")),
    (
        re.compile(
            _R + rf"(?P<op>(?:arith|math)\.\w+)(?: (?P<predicate>[a-z]+),)? (?P<operands>{NAME}(?:, {NAME})*) "
            r": (?P<type>\w+)"
        ),
        _arith,
    ),
    (
        re.compile(_R + rf"(?P<op>arith\.\w+|builtin\.unrealized_conversion_cast) (?P<a>{NAME}) : (?P<from>\w+) to (?P<to>\w+)"),
        _named("", "a", "from", "to"),
    ),
    (
        re.compile(
            _R + rf"pto\.alloc_tile(?: addr = (?P<addr>{NAME}))?(?: valid_row = (?P<valid_row>{NAME}))?"
            rf"(?: valid_col = (?P<valid_col>{NAME}))? : (?P<type>!pto\.tile_buf<.*>)"
        ),
        _alloc,
    ),
    (
        re.compile(rf"pto\.set_validshape (?P<a>{NAME}), (?P<b>{NAME}), (?P<c>{NAME}) : (?P<type>!pto\.tile_buf<.*>)"),
        _named("pto.set_validshape", "a b c", "type index index"),
    ),
    (
        re.compile(
            _R + rf"pto\.subview (?P<source>{NAME})\[(?P<offsets>[^\]]*)\] sizes \[(?P<sizes>\d+, \d+)\]"
            r"(?: valid \[(?P<valid>[^\]]*)\])? : (?P<from>!pto\.tile_buf<.*?>) -> (?P<to>!pto\.tile_buf<.*>)"
        ),
        _subview,
    ),
    (
        re.compile(_R + rf"pto\.treshape (?P<a>{NAME}) : (?P<from>!pto\.tile_buf<.*?>) -> (?P<to>!pto\.tile_buf<.*>)"),
        _named("pto.treshape", "a", "from", "to"),
    ),
    (
        re.compile(
            _R + rf"pto\.make_tensor_view (?P<source>{NAME}), shape = \[(?P<shape>[^\]]*)\], strides = \[(?P<strides>[^\]]*)\] "
            r"\{layout = #pto\.layout<(?P<layout>\w+)>\} : (?P<type>!pto\.tensor_view<.*>)"
        ),
        _tensor_view,
    ),
    (
        re.compile(
            _R + rf"pto\.partition_view (?P<source>{NAME}), offsets = \[(?P<offsets>[^\]]*)\], sizes = \[(?P<sizes>[^\]]*)\] : "
            r"(?P<from>!pto\.tensor_view<.*?>) -> (?P<to>!pto\.partition_tensor_view<.*>)"
        ),
        _partition,
    ),
    (
        re.compile(_R + rf"pto\.addptr (?P<a>{NAME}), (?P<b>{NAME}) : <(?P<element>\w+)> -> <(?P=element)>"),
        _moved_pointer,
    ),
    (
        re.compile(_R + rf"pto\.load_scalar {_ELEMENT} -> (?P<type>\w+)"),
        _named("pto.load_scalar", "a b", "pointer index", "type"),
    ),
    (
        re.compile(
            rf"pto\.store_scalar (?P<v>{NAME}), (?P<a>{NAME})\[(?P<b>{NAME})\] : (?P<pointer>!pto\.ptr<\w+>), (?P<type>\w+)"
        ),
        _named("pto.store_scalar", "v a b", "type pointer index"),
    ),
    (
        re.compile(
            _R + rf"pto\.tgetval ins\((?P<a>{NAME}), (?P<b>{NAME}) : (?P<tile>!pto\.tile_buf<.*>), index\) outs : (?P<type>\w+)"
        ),
        _named("pto.tgetval", "a b", "tile index", "type"),
    ),
    (
        re.compile(
            rf'"pto\.ttri"\((?P<a>{NAME}), (?P<b>{NAME})\) \{{upperOrLower = (?P<upper>[01]) : i32\}} : '
            r"\(i32, (?P<tile>!pto\.tile_buf<.*>)\) -> \(\)"
        ),
        _named("pto.ttri", "a b", "i32 tile"),
    ),
    (
        re.compile(r"(?P<name>pto\.[a-z0-9.]+) (?:ins\((?P<ins>.*?)\) )?outs\((?P<outs>[^()]*)\)(?: \{(?P<after>.*)\})?"),
        _instruction,
    ),
    (re.compile(r"scf\.yield(?: (?P<a>[^:]*) : (?P<t>.*))?"), _named("scf.yield", "a", "t")),
    (re.compile(rf"scf\.condition\((?P<c>{NAME})\)(?: (?P<a>[^:]*) : (?P<t>.*))?"), _named("scf.condition", "c a", "i1 t")),
]
