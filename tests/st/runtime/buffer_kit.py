"""Shared by the numerical tests of Buffer IR: one case per planner, and a look at the program that was executed.

In: a kernel, its arguments and a golden function.  Out: the decorator of a test; facts about the final program of a run.
"""

import numpy as np

import pypto.language as pl
from pypto.enums import FunctionIRStage
from pypto.ir import deserialize, serialize
from pypto.ir.expr import Call
from pypto.ir.rewrite import walk
from pypto.ir.stmt import ForStmt, IfStmt, WhileStmt
from pypto.ir.types import ScalarType
from pypto.passes import MemoryPlanner
from pypto.testing import st

UNWRITTEN, OTHER = -777, -555
I = pl.Scalar[pl.INDEX]  # noqa: E741


def planned(kernel, *args, golden, name="", **options):
    """The decorator that runs a test for a kernel under each planner; exact unless tolerances are given."""
    options = {"rtol": 0, "atol": 0, "golden": golden, **options}
    names = {p: "-".join(filter(None, (kernel.__name__, name, p.name.lower()))) for p in MemoryPlanner}
    return st.cases(
        *(st.case(kernel, *args, name=n, memory_planner=p, enable_buffer_ir=True, **options) for p, n in names.items())
    )


def whole(*shape, dtype=np.float32, low=-9, high=10):
    """Small integers: sums and products of a few of them are exact."""
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(dtype)


def dyadic(*shape, dtype=np.float32):
    """Multiples of 1/8 below 4: sums of some hundred products of them are exact in FP32."""
    return (whole(*shape, low=-31, high=32) / 8).astype(dtype)


def unwritten(*shape, dtype=np.float32, fill=UNWRITTEN):
    """An output whose elements show whether they were written."""
    return np.full(shape, fill, dtype)


def config(*values):
    """Run-time numbers that the entry reads."""
    return np.array(values, np.int32)


def final_program(case_run):
    """The final program of what ran; where artifacts are kept, the one beside them, which must be the same."""
    program = case_run.program
    if case_run.work_dir is not None:
        saved = (case_run.work_dir / "buffer_ir.msgpack").read_bytes()
        assert saved == serialize(program)
        assert (case_run.work_dir / "kernel.c").read_text() == case_run.compiled.inspect("c")
        program = deserialize(saved)
    return program


def device_functions(case_run):
    return [f for f in final_program(case_run).function_list if f.is_device]


def stages(case_run):
    """The stages of all kernels of a run."""
    return {f.ir_stage for f in device_functions(case_run)}


ALL_BUFFERS = {FunctionIRStage.Buffer}


def operations(case_run):
    """How often each operation occurs in the kernels of a run."""
    found = {}
    for f in device_functions(case_run):
        for n in walk(f.body):
            if isinstance(n, Call):
                found[n.op.name] = found.get(n.op.name, 0) + 1
    return found


def carried(case_run):
    """The element types of scalars that branches and loops of the kernels hand on, "?" for anything else, by statement."""
    return [
        [str(v.type.dtype) if isinstance(v.type, ScalarType) else "?" for v in n.return_vars]
        for f in device_functions(case_run)
        for n in walk(f.body)
        if isinstance(n, (ForStmt, IfStmt, WhileStmt))
    ]


def addresses(case_run):
    """How many operands each allocation has: an address, or none."""
    calls = [n for f in device_functions(case_run) for n in walk(f.body) if isinstance(n, Call) and n.op.name == "buffer.alloc"]
    return {len(n.args) for n in calls}


def check_explicit(case_run, *expected):
    """All kernels are buffers, control flow hands on scalars only, and each of `expected` is there."""
    assert stages(case_run) == ALL_BUFFERS
    assert all("?" not in types for types in carried(case_run))
    assert set(expected) <= operations(case_run).keys()
    addressed = case_run.case.memory_planner is not MemoryPlanner.PTOAS
    assert addresses(case_run) == ({2} if addressed else {1})
