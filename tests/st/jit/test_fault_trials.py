"""The trials of `fault_trials.py`, a few of each; PYPTO_TRIALS=400 makes as many as the table of docs/reliability.md has."""

import os
import subprocess
import sys
from pathlib import Path

import fault_trials
import pytest
from fault_trials import TRIALS

FEW = {
    "killed_at_each_call": 200,
    "killed_at_any_time": 10,
    "failing_at_each_call": 100,
    "damaged": 40,
    "built_once": 20,
    "kernels_killed": 2,
    "many_entries": 2000,
}


@pytest.mark.parametrize("name", [t.__name__ for t in TRIALS])
def test_what_is_promised_holds(name):
    trials = os.environ.get("PYPTO_TRIALS") or FEW[name]
    # In a process of its own, which has no threads: it forks.
    command = [sys.executable, fault_trials.__file__, "--only", name, "--trials", str(trials)]
    p = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert p.returncode == 0, p.stderr
    assert p.stdout.startswith(name)


def test_the_trials_see_damage(tmp_path, monkeypatch):
    """A store that believes what it finds would not pass."""
    unchecked = fault_trials.entry._read_bytes
    monkeypatch.setattr(fault_trials.entry, "_read_file", lambda directory, name, info: unchecked(directory, name, 1 << 30))
    with pytest.raises(AssertionError):
        fault_trials.damaged(Path(tmp_path / "cache"), 60)
