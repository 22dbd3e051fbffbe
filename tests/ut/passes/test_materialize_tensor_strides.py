"""Views of tensors say their strides."""

import pytest
from back_lab import kernel_of, raw_kernel
from pass_lab import same

from pypto.enums import TensorLayout
from pypto.errors import NotSupportedError
from pypto.ir.shaped import as_dims, const_dims
from pypto.passes.context import PassOptions
from pypto.passes.materialize_tensor_strides import materialize_tensor_strides, packed_strides

BODY = "t = pl.tile.load(x, [0, 0], [8, 64], [8, 64], target_memory=pl.Mem.Vec)\ns: {t} = pl.tile.store(t, [0, 0], o)\nreturn s"
PLAIN = "pl.Tensor[[16, 64], pl.FP32]"
VIEW = "pl.Tensor[[16, 64], pl.FP32, pl.TensorView({stride}layout=pl.ND, valid_shape=[8, 64])]"


def test_a_view_without_strides_gets_the_packed_ones():
    old, new = VIEW.format(stride="stride=[], "), VIEW.format(stride="stride=[64, 1], ")
    before = raw_kernel(BODY.format(t=old), f"x: {old}, o: pl.Out[{old}]", old)
    after = raw_kernel(BODY.format(t=new), f"x: {new}, o: pl.Out[{new}]", new)
    made = materialize_tensor_strides.run(before, PassOptions())
    same(made, after)
    assert materialize_tensor_strides.run(made, PassOptions()) is made


def test_a_tensor_without_a_view_stays_without():
    p = raw_kernel(BODY.format(t=PLAIN), f"x: {PLAIN}, o: pl.Out[{PLAIN}]", PLAIN)
    assert materialize_tensor_strides.run(p, PassOptions()) is p
    assert kernel_of(p).params[0].type.tensor_view is None


@pytest.mark.parametrize(("layout", "want"), [(TensorLayout.ND, (24, 6, 1)), (TensorLayout.DN, (24, 1, 4))])
def test_packed_strides(layout, want):
    assert const_dims(packed_strides(as_dims((2, 4, 6)), layout)) == want


def test_layouts_without_flat_strides():
    with pytest.raises(NotSupportedError, match="NZ"):
        packed_strides(as_dims((16, 16)), TensorLayout.NZ)
