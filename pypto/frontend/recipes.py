"""Functions that other array languages have, in terms of the operators there are.

In: a name, or the text of an expression.  Out: what to write for it.
Invariant: what a recipe spells out is accepted by the language; `{x}` is the operand, `{i}` the operand beside an operator.
"""

from __future__ import annotations

import ast

__all__ = ["RECIPES", "in_domain"]

_EXAMPLE = "examples/{}.py has it as a kernel"
_BY_INDEX = 'load the row numbers and gather: pl.mgather(table, pl.load(ids, [0, 0], [1, 8]), "row"), INT32 numbers of rows'
_SORTED = "pl.sort32 sorts blocks of 32 columns, with their indices, and pl.mrgsort merges them; " + _EXAMPLE.format("top_k")
_SIGMOID = "{i} / (pl.exp(-{i}) + 1.0)"

RECIPES = {
    "softmax": "write e = pl.exp({i} - pl.row_max({x})), then e / pl.row_sum(e), on tensors",
    "log_softmax": "write y = {i} - pl.row_max({x}), then y - pl.log(pl.row_sum(pl.exp(y))), on tensors",
    "gelu": "write {i} / (pl.exp(({i} + {i} * {i} * {i} * 0.044715) * -1.5957691216057308) + 1.0), the form with tanh",
    "silu": f"write {_SIGMOID}",
    "swish": f"write {_SIGMOID}",
    "softplus": "write pl.maximum({x}, 0.0) + pl.log(pl.exp(-pl.abs({x})) + 1.0)",
    "relu6": "write pl.minimum(pl.relu({x}), 6.0)",
    "rms_norm": "write {i} * pl.rsqrt(pl.row_sum({i} * {i}) * (1.0 / {i}.shape[1]) + 1e-6), on tensors; "
    + _EXAMPLE.format("norms"),
    "layer_norm": "write d = {i} - pl.row_sum({x}) * (1.0 / {i}.shape[1]), then d * pl.rsqrt(pl.row_sum(d * d) * "
    "(1.0 / {i}.shape[1]) + 1e-5), on tensors; " + _EXAMPLE.format("norms"),
    "var": "write d = {i} - pl.row_sum({x}) * (1.0 / {i}.shape[1]), then pl.row_sum(d * d) * (1.0 / {i}.shape[1]), on tensors",
    "std": "write d = {i} - pl.row_sum({x}) * (1.0 / {i}.shape[1]), then pl.sqrt(pl.row_sum(d * d) * (1.0 / {i}.shape[1])), "
    "on tensors",
    "cumsum": "multiply by a triangle of ones, pl.matmul({x}, ones), with ones = np.triu(np.ones((n, n), np.float32)) passed as "
    "a parameter",
    "dropout": "multiply by a mask of zeros and ones that is passed as a parameter",
    "erf": "there is no erf: pass its values as a parameter, or write what it is used for, such as gelu, with pl.exp",
    **dict.fromkeys(("topk", "top_k", "sort", "argsort"), _SORTED),
    **dict.fromkeys(("embedding", "take", "index_select"), _BY_INDEX),
    "linear": "write pl.matmul({x}, w) + b, with b of shape [1, N]; " + _EXAMPLE.format("linear"),
    **dict.fromkeys(("attention", "scaled_dot_product_attention"), _EXAMPLE.format("flash_attention")),
    **dict.fromkeys(("rope", "rotary_embedding"), _EXAMPLE.format("rope")),
}  # fmt: skip

# Functions that give NaN, or an infinity, for some elements.
_PARTIAL = frozenset(("log", "sqrt", "rsqrt", "recip", "exp"))


def in_domain(text: str, chosen: str, other: str) -> str:
    """An expression that is finite also where `chosen` is 0 (and `other` 1): functions and divisors are given 1 there."""
    tree = ast.parse(text, mode="eval").body
    return ast.unparse(_InDomain(chosen, other).visit(tree)) if _is_partial(tree) else text


def _is_partial(tree: ast.expr) -> bool:
    return any(_confined(n) is not None for n in ast.walk(tree))


def _confined(node: ast.AST) -> ast.expr | None:
    """The operand of a node that must lie in a domain."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        operand: ast.expr = node.right
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PARTIAL and node.args:
        operand = node.args[0]
    else:
        return None
    return None if isinstance(operand, ast.Constant) else operand


class _InDomain(ast.NodeTransformer):
    def __init__(self, chosen: str, other: str) -> None:
        self.form = f"{chosen} * _ + {other}"

    def generic_visit(self, node: ast.AST) -> ast.AST:
        operand = _confined(node)
        super().generic_visit(node)
        if operand is None:
            return node
        if isinstance(node, ast.BinOp):
            node.right = self._held(node.right)
        elif isinstance(node, ast.Call):
            node.args[0] = self._held(node.args[0])
        return node

    def _held(self, operand: ast.expr) -> ast.expr:
        form = ast.parse(self.form, mode="eval").body
        assert isinstance(form, ast.BinOp)
        assert isinstance(form.left, ast.BinOp)
        form.left.right = operand
        return form
