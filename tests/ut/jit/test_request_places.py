"""Where a failing statement stands, found again from its numbers."""

import pypto.language as pl
from pypto.frontend.source import capture
from pypto.jit.request import ProgramRequest, Request
from pypto.passes.context import PassOptions
from pypto.runtime.plan import Site


def first(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.mul(x, 2.0)

        y[:] = t
    return y


def second(t: pl.Tensor):
    return pl.add(t, 1.0)


SOURCES = (capture(first), capture(second))


def site(source, ordinal):
    return Site("bounds", "message", source, ordinal)


def test_sources_and_statements():
    request = Request(SOURCES[0], SOURCES, {}, {}, PassOptions(), True)
    assert request.entry == "first"
    line = first.__code__.co_firstlineno
    for ordinal, offset in ((0, 0), (1, 1), (2, 2), (3, 4), (4, 5)):
        span = request.locate(site(0, ordinal))
        assert span.begin_line == line + offset
        text = SOURCES[0].line(span.begin_line)
        assert text[span.begin_column - 1 :].startswith(text.strip())
        assert span.filename == __file__
    assert request.locate(site(1, 1)).begin_line == second.__code__.co_firstlineno + 1


def test_numbers_of_nothing():
    request = Request(SOURCES[0], SOURCES, {}, {}, PassOptions(), True)
    for source, ordinal in ((-1, 0), (2, 0), (0, 99), (0, -1)):
        assert request.locate(site(source, ordinal)) is None


def test_programs_know_their_own_positions():
    program = pl.parse_program(
        """import pypto.language as pl
@pl.program
class P:
    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[8, 8], pl.FP32], y: pl.Out[pl.Tensor[[8, 8], pl.FP32]]) -> pl.Tensor[[8, 8], pl.FP32]:
        z = pl.create_tensor([8, 8], dtype=pl.FP32)
        return z
"""
    )
    request = ProgramRequest(program, "main", PassOptions(), True)
    from pypto.ir.rewrite import walk
    from pypto.ir.stmt import AssignStmt

    (assign,) = (n for n in walk(program.get_function("main").body) if isinstance(n, AssignStmt))
    found = request.locate(site(assign.span.source, assign.span.ordinal))
    assert found.begin_line == assign.span.begin_line == 6
    assert request.locate(site(7, 7)) is None
