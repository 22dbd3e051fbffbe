"""NormalizeStmtStructure: flat sequences and nothing else."""

from pass_lab import apply, body, findings, main, same

from pypto.ir.stmt import IfStmt, SeqStmts
from pypto.ir.verify.properties import IRProperty

K = "n: pl.Scalar[pl.INDEX], k: pl.Scalar[pl.INDEX]"
FLAT = (IRProperty.NormalizedStmtStructure, IRProperty.NoRedundantBlocks)


def test_nested_and_lonely_sequences_go():
    p = body("if n > 2:\n    k = k + n\nk = k * 2\nreturn k", K)
    f = main(p)
    branch, double, back = f.body.stmts
    assert isinstance(branch, IfStmt)
    lonely = branch.replace(then_body=SeqStmts((SeqStmts((branch.then_body,)),)))
    nested = p.with_functions([f.replace(body=SeqStmts((SeqStmts((lonely, SeqStmts((double,)))), back)))])
    assert findings(nested, *FLAT)
    got = apply(nested, "normalize_stmt_structure")
    assert findings(got, *FLAT) == []
    same(got, p)


def test_flat_programs_are_the_same_objects():
    p = body("if n > 2:\n    k = k + n\n    n = k\nreturn k", K)
    assert main(apply(p, "normalize_stmt_structure")) is main(p)
