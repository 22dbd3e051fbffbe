"""Options of a call: those that can change an artifact split the key; diagnostics happen each time and change nothing."""

from jit_kit import HEAD

MODES = (
    HEAD
    + """
from pypto import passes
@pl.jit
def k(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.add(pl.mul(x, 2.0), 1.0)
    return y
def watched():
    seen = []
    with passes.PassContext([passes.CallbackInstrument(after_pass=lambda p, prog: seen.append(p))]):
        got = call(k)
    return got, len(seen) > 5
if sys.argv[1] == "plain":
    print(call(k))
elif sys.argv[1] == "watched":
    print(*watched(), *watched(), pypto.cache_stats().last_bypass_reason != "")
elif sys.argv[1] == "late":                                          # after the kernel is known to the dispatcher
    print(call(k), *watched(), call(k), *watched(), call(k))
else:
    P = passes.MemoryPlanner
    for planner in (P.PYPTO, P.DSA_RP, P.PTOAS):
        for b in (True, False):
            with passes.PassContext([], memory_planner=planner, enable_buffer_ir=b):
                print(call(k))
"""
)


def test_options_split_the_key_and_diagnostics_go_around_it(box):
    assert box.run(MODES, "watched").words == ["3.0", "True", "3.0", "True", "True"]
    assert box.builds() == 2  # built, never stored
    assert box.run(MODES, "plain").words == ["3.0"]
    assert box.builds() == 1  # so this one is a miss
    assert box.run(MODES, "watched").words == ["3.0", "True", "3.0", "True", "True"]
    assert box.builds() == 2  # and a stored entry is not used
    assert box.run(MODES, "options").words == ["3.0"] * 6
    assert box.builds() == 5  # the default was there already
    assert box.run(MODES, "options").words == ["3.0"] * 6
    assert box.builds() == 0


def test_a_watch_begun_after_the_first_call(box):
    assert box.run(MODES, "late").words == ["3.0", "3.0", "True", "3.0", "3.0", "True", "3.0"]
    assert box.builds() == 3


def test_contexts_that_take_turns(box):
    code = """
P = passes.MemoryPlanner
plain, dsa = passes.PassContext(), passes.PassContext(memory_planner=P.DSA_RP)
for _ in range(3):
    with plain: call(k)
    with dsa:
        call(k)
        with plain: call(k)
        call(k)
    call(k)
print(pypto.cache_stats().requests)
"""
    assert box.run(MODES.split("if sys.argv")[0] + code).words == ["2"]
    assert box.builds() == 2


def test_a_watch_on_one_thread_while_another_calls(box):
    code = """
go, done = threading.Event(), threading.Event()
def plainly():
    go.wait(); n = pypto.cache_stats().requests
    assert call(k) == 3.0
    print("answered", pypto.cache_stats().requests - n); done.set()
call(k)
t = threading.Thread(target=plainly); t.start()
def during(p, program):
    if not go.is_set(): go.set(); done.wait()
with passes.PassContext([passes.CallbackInstrument(after_pass=during)]): call(k)
t.join()
"""
    assert box.run(MODES.split("if sys.argv")[0] + code).words == ["answered", "0"]
    assert box.builds() == 2


def test_verification_and_thread_counts_are_no_part_of_the_key(box):
    assert box.run(MODES, "plain", PYPTO_VERIFY_LEVEL="roundtrip").words == ["3.0"]
    assert box.builds() == 1
    with_level = "with passes.PassContext(verification_level=passes.VerificationLevel.NONE): print(call(k))\n"
    assert box.run(MODES.split("if sys.argv")[0] + with_level, PYPTO_VERIFY_LEVEL="basic", PYPTO_NUM_THREADS=1).words == ["3.0"]
    assert box.builds() == 0


def test_native_optimizations_are_read_when_a_kernel_is_looked_up(box):
    assert box.run(MODES, "plain", PYPTO_NATIVE_OPT=0).words == ["3.0"]
    assert box.builds() == 1
    code = """
first = k.compile(ones(), ones())
os.environ["PYPTO_NATIVE_OPT"] = "0"
second = k.compile(ones(), ones())
os.environ["PYPTO_NATIVE_OPT"] = "maybe"
try: k.compile(ones(), ones())
except pypto.Error as e: print("PYPTO_NATIVE_OPT" in str(e), first is not second, first.inspect("c") != second.inspect("c"))
"""
    assert box.run(MODES.split("if sys.argv")[0] + code).words == ["True"] * 3
    assert box.builds() == 1


def test_an_output_directory_is_filled_each_time(box):
    code = """
from pathlib import Path
program = k.specialize(ones(), ones())
for n in range(2):
    made = pypto.ir.compile(program, output_dir=f"out{n}")
    y = np.zeros((64, 64), np.float32); made(ones(), y)
    files = sorted(p.name for p in Path(f"out{n}").iterdir())
    dumps = list(Path(f"out{n}", "passes_dump").iterdir())
    print("kernel.c" in files, "kernel.so" in files, len(dumps) > 5, y[0, 0], str(made) == os.path.abspath(f"out{n}"))
"""
    assert box.run(MODES.split("if sys.argv")[0] + code).words == ["True", "True", "True", "3.0", "True"] * 2
    assert box.builds() == 2
