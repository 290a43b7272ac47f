"""Tests that Ctrl-C in a run or a load raises KeyboardInterrupt, and that a process can end while threads run."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert.core.interrupts import interrupts_as_they_came
from tests.runtime.conftest import Load
from tests.runtime.npu_models import cpu_around_npu

START = """
import json, os, random, signal, sys, threading, time
from collections import Counter
import numpy as np
from litert.compiled_model import CompiledModel
from litert.environment import Environment
from tests.runtime.npu_models import VENDORS, cpu_around_npu

X = np.array([[1, 2, 3, 4]], np.float32)
DATA = cpu_around_npu()
ENVIRONMENT = Environment.create(dispatch_library_path=str(VENDORS))

def load():
    return CompiledModel.from_buffer(DATA, environment=ENVIRONMENT)
"""
INTERRUPTED = """
model = load()
inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
inputs[0].write(X)
WORK = {
    "run": lambda: model.run_by_index(0, inputs, outputs),
    "arrays": lambda: model.run({"x": X}),
    "load": lambda: load().close(),
}[sys.argv[1]]
WORK()
chance, seen, count = random.Random(1), Counter(), int(sys.argv[2])
is_wanted = threading.Event()

def interrupt():
    for _ in range(count):
        is_wanted.wait()
        is_wanted.clear()
        time.sleep(chance.random() * 0.002)
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
while seen.total() < count:
    try:
        is_wanted.set()
        while True:
            WORK()
    except BaseException as error:
        seen[f"{type(error).__name__}: {error}"] += 1
model.run_by_index(0, inputs, outputs)
np.testing.assert_array_equal(outputs[0].array(), 6 * X)
model.close()
print(json.dumps(seen))
"""
ENDING = """
from litert.runtime import process_exit
process_exit._MOST_S = 1000  # a call that waits for the end, which waits for it, is not overlooked

def work():
    model = load()
    while True:
        model.run({"x": X}) if sys.argv[1] == "run" else load().close()

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3 + float(sys.argv[2]))
print("ends", flush=True)
"""
ROOT = Path(__file__).parents[2]


def child(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START + code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(("work", "count"), [("run", 400), ("arrays", 200), ("load", 100)])
def test_each_ctrl_c_is_a_keyboard_interrupt(work: str, count: int) -> None:
    ended = child(INTERRUPTED, work, count)
    assert ended.returncode == 0, ended.stderr
    assert Counter(json.loads(ended.stdout)) == {"KeyboardInterrupt: ": count}


@pytest.mark.parametrize("work", ["run", "load"])
@pytest.mark.parametrize("moment", range(4))
def test_a_process_ends_while_daemon_threads_use_models(work: str, moment: int) -> None:
    ended = child(ENDING, work, moment / 1000)
    assert (ended.returncode, ended.stdout) == (0, "ends\n"), ended.stderr
    assert "Fatal" not in ended.stderr and "terminate" not in ended.stderr


class _Interrupting:
    def __set_name__(self, owner: type, name: str) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_in_a_class_body_is_a_keyboard_interrupt() -> None:
    """A load may import a module with a class body; before Python 3.12, Ctrl-C in it becomes a RuntimeError."""
    with pytest.raises(KeyboardInterrupt), interrupts_as_they_came():
        type("Class", (), {"attribute": _Interrupting()})
    with pytest.raises(RuntimeError, match="another"), interrupts_as_they_came():
        raise RuntimeError("another")


@pytest.mark.parametrize("copies", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_model_that_is_loaded_is_not_copied(load: Load, copies: Callable[[Any], Any]) -> None:
    """If a copy existed, its deletion would close the original's resources."""
    model = load(cpu_around_npu())
    with pytest.raises(TypeError, match="load the model again"):
        copies(model)
    x = np.ones((1, 4), np.float32)
    np.testing.assert_array_equal(model.run({"x": x})["z"], 6 * x)


def test_a_process_that_is_forked_off_waits_for_no_thread_of_the_other() -> None:
    code = """
def work():
    model = load()
    while True:
        model.run({"x": X})

threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
for _ in range(20):  # ten seconds each, where one waits
    child = os.fork()
    if not child:
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
print("done")
"""
    assert child(code).stdout == "done\n"
