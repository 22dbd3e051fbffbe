"""What the tests of the launcher share: plans, arrays, a slow path that takes notes."""

import subprocess
from pathlib import Path

import numpy as np

from pypto.dtypes import DataType
from pypto.runtime import launch
from pypto.runtime.plan import KernelPlan, ScalarParam, TensorParam

PACKAGE = Path(launch.__file__).parent
FP32, INT64, INDEX = DataType.FP32, DataType.INT64, DataType.INDEX


def compiled(source, target, *flags):
    command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{PACKAGE / 'include'}", *flags]
    subprocess.run([*command, *map(str, source), "-o", str(target), "-lm"], check=True)
    return target


class Slow:
    """The slow path of a dispatcher: notes each call."""

    def __init__(self):
        self.calls = []

    def __call__(self, args, kwargs):
        assert type(args) is tuple
        assert type(kwargs) is dict
        self.calls.append((args, kwargs))
        return "slow"


def tensor(name, dims, direction="in", dtype=FP32, hidden=False):
    return TensorParam(name, dtype, dims, direction, hidden)


AFFINE = KernelPlan(
    "affine",
    (tensor("x", (-1,)), ScalarParam("s", FP32), ScalarParam("n", INDEX), tensor("y", (-1,), "out")),
    ("N",),
    ((0, 3),),
    (3,),
)
COUNT = KernelPlan("count", (tensor("x", (4, 8)), ScalarParam("n", INDEX), tensor("y", (4, 8), "out")), returns=(2,))


def echo_plan(*scalars):
    return KernelPlan("echo", (tensor("y", (8,), "out", INT64), *scalars), scratch_bytes=1000)


def f32(*shape, fill=0):
    return np.full(shape, fill, np.float32)


class Sub(np.ndarray):
    pass


class Interface:
    def __init__(self, base):
        self.base, self.__array_interface__ = base, base.__array_interface__


class Index:
    def __index__(self):
        return 7
