"""What a kernel should give, and whether it did.

In: a golden function with the tensors of a case; then actual and expected outputs.  Out: expected outputs in the types of
the outputs; None, or what differs.  Tensors are numpy arrays, or torch tensors if the case was declared with those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pypto.errors import ArgumentTypeError, ArgumentValueError
from pypto.runtime.arrays import Array
from pypto.testing.specs import NO_NUMBERS, TensorSpec, array_of, as_torch, converted

__all__ = ["Compare", "Golden", "difference", "expected_outputs", "rel_err_under"]

Golden = Callable[[dict[str, Any]], Any]
Compare = Callable[[dict[str, Any], dict[str, Any]], None]


def expected_outputs(golden: Golden, tensors: Sequence[TensorSpec], held: Mapping[str, Array]) -> dict[str, Array]:
    """What `golden` makes of the tensors by name, outputs holding what they hold before the kernel runs.

    It returns a tensor (if there is one output), a dict of all outputs, or None after changing the outputs in place.
    ArgumentValueError for a missing or unknown output or another shape, ArgumentTypeError for anything else.
    """
    outputs = [t for t in tensors if t.is_output]
    given = _shown({t.name: held[t.name].copy() for t in tensors}, tensors)
    returned = golden(given)
    if returned is None:
        found = {t.name: given.get(t.name) for t in outputs}
    elif isinstance(returned, Mapping):
        found = dict(returned)
        missing, unknown = [t.name for t in outputs if t.name not in found], found.keys() - {t.name for t in outputs}
        if missing or unknown:
            what = "; ".join([*(f"no output '{n}'" for n in missing), *(f"'{n}' is no output" for n in sorted(unknown))])
            raise ArgumentValueError(f"golden returned {what}", hint=f"return {', '.join(t.name for t in outputs)}, all by name")
    elif len(outputs) == 1:
        found = {outputs[0].name: returned}
    else:
        names = ", ".join(t.name for t in outputs)
        raise ArgumentTypeError(f"golden returned one {type(returned).__name__} for the outputs {names}", hint="return a dict")
    return {t.name: _checked(t, found[t.name]) for t in outputs}


def _checked(t: TensorSpec, value: Any) -> Array:
    array = array_of(value)
    if array is None:
        what = f"golden gave a {type(value).__name__} for output '{t.name}'"
        raise ArgumentTypeError(what, hint="return a tensor, a dict of tensors, or None after changing the outputs")
    if array.shape != t.shape:
        what = f"golden gave shape {list(array.shape)} for output '{t.name}' of shape {list(t.shape)}"
        raise ArgumentValueError(what, hint="return the whole output, what the kernel does not write included")
    if array.dtype.kind in NO_NUMBERS:
        raise ArgumentTypeError(f"golden gave {array.dtype} for output '{t.name}'", hint="return real numbers")
    return converted(array, t.dtype.numpy())


def _shown(arrays: dict[str, Array], tensors: Sequence[TensorSpec]) -> dict[str, Any]:
    """The tensors as the user's functions get them."""
    torch = any(t.from_torch for t in tensors)
    return {n: as_torch(a) if torch else a for n, a in arrays.items()}


def difference(
    actual: Mapping[str, Array],
    expected: Mapping[str, Array],
    tensors: Sequence[TensorSpec],
    rtol: float,
    atol: float,
    compare: Compare | None,
) -> str | None:
    """Why the outputs are not as expected, or None.

    Without `compare`: |actual - expected| <= atol + rtol * |expected| for every element; a NaN is like nothing.
    """
    if compare is not None:
        try:
            said: object = compare(*(_shown({n: a.copy() for n, a in side.items()}, tensors) for side in (actual, expected)))
        except AssertionError as e:
            return f"golden validation failed (custom compare): {e}"
        if said is not None:
            what = f"compare returned {said!r} instead of raising AssertionError or returning None"
            return f"golden validation failed (custom compare): {what}"
        return None
    found = [line for n in expected for line in _differing(n, actual[n], expected[n], rtol, atol)]
    return f"golden validation failed (rtol={rtol:g}, atol={atol:g}): {'; '.join(found)}" if found else None


def _differing(name: str, actual: Array, expected: Array, rtol: float, atol: float) -> Iterator[str]:
    with np.errstate(all="ignore"):
        apart = _distance(actual, expected)
        allowed = atol + rtol * np.abs(expected.astype(np.float64)) if rtol else atol
        wrong = ~((actual == expected) | (np.isfinite(apart) & (apart <= allowed)))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        yield (
            f"output '{name}': {int(wrong.sum())} of {wrong.size} elements differ, first at {list(at)}: "
            f"got {actual[at]}, expected {expected[at]}; largest error {np.max(apart[wrong])}"
        )


def _distance(a: Array, b: Array) -> Array:
    """|a - b|, exact for integers: 64 bits do not fit a float."""
    if a.dtype.kind in "iu":
        up, down = (np.subtract(x.astype(np.uint64), y.astype(np.uint64)) for x, y in ((a, b), (b, a)))
        return np.where(a > b, up, down)
    return np.abs(a.astype(np.float64) - b.astype(np.float64))


def rel_err_under(limit: float) -> Compare:
    """A comparison for `st.case(compare=...)`: ||actual - expected|| < limit * ||expected||, Frobenius norms, each output."""
    if not isinstance(limit, (int, float, np.number)):
        raise ArgumentTypeError(f"st.rel_err_under takes a number, got {type(limit).__name__}", hint="st.rel_err_under(1e-3)")

    def compare(actual: dict[str, Any], expected: dict[str, Any]) -> None:
        for name, want in expected.items():
            a, e = (np.asarray(array_of(x), np.float64) for x in (actual[name], want))
            error, size = float(np.linalg.norm(a - e)), float(np.linalg.norm(e))
            if not (error < limit * size or error == size == 0):
                relative = error / size if size else float("inf")
                raise AssertionError(f"output '{name}': relative error {relative:.3g}, limit {limit:g}")

    return compare
