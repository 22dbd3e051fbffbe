"""The directions of call arguments under the lower-case names that `make_call(..., directions=[...])` is written with."""

from pypto.enums import ArgDirection

input = ArgDirection.Input
output = ArgDirection.Output
output_existing = ArgDirection.OutputExisting
inout = ArgDirection.InOut
no_dep = ArgDirection.NoDep
scalar = scalar_dir = ArgDirection.Scalar
