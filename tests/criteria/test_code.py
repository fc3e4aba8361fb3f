"""Criteria of code, and what code that is not meant well does to them."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import ExitStack
from typing import Any

import pytest

from rubrics import Evaluation, Rubric, StructureError
from rubrics.criteria import ImportsAllowed, ParsesPython, RuffClean, UnitTests

TESTS = """
def test_small():
    assert add(1, 2) == 3

def test_large():
    assert add(10**20, 1) == 10**20 + 1, "large numbers"
"""
WRITES = """
import os
for file in range(3, 20):
    try:
        os.write(file, b"x passed test_small\\n")
    except OSError:
        pass
os._exit(0)
"""
RIGHT = "def add(a, b):\n    return a + b\n"


def scored(leaf: Rubric, action: Any, task: Any = None) -> Evaluation:
    return leaf.evaluate_sync(action, None, leaf.episode(task=task))


@pytest.mark.parametrize(
    ("leaf", "text", "expected", "reason"),
    [
        (ParsesPython(), RIGHT, 1.0, None),
        (ParsesPython(), f"Here it is:\n```python\n{RIGHT}```\nEnjoy.", 1.0, None),
        (ParsesPython(), "def add(", 0.0, "line 1: '(' was never closed"),
        (ParsesPython(), "return 3", 0.0, "it does not compile: 'return' outside function"),
        (ParsesPython(compiles=False), "return 3", 1.0, None),
        (ParsesPython(), "x = '\0'", 0.0, "source code string cannot contain null bytes"),
        (ParsesPython(), "(" * 10_000, 0.0, ""),
        (ParsesPython(), "-" * 200_000 + "1", 0.0, ""),
        (ImportsAllowed(["math", "collections"]), "import math\nfrom collections.abc import Mapping", 1.0, None),
        (ImportsAllowed(["math"]), "import os, math", 0.0, "it imports os"),
        (ImportsAllowed(["math"]), "from . import secret", 0.0, "it imports ."),
        (ImportsAllowed(["math"]), "__import__('subprocess').run('ls')", 0.0, "it imports subprocess"),
        (ImportsAllowed(forbidden=["os", "subprocess"]), "import os.path", 0.0, "it imports os.path"),
        (ImportsAllowed(forbidden=["os"]), "import osgeo", 1.0, None),
        (ImportsAllowed([]), "x = 1", 1.0, None),
        (ImportsAllowed([]), "import", 0.0, "line 1: "),
        (RuffClean(), "x = 1\n", 1.0, None),
        (RuffClean(), "import os\nx = y\n", 0.8, "2 findings, line 1"),
        (RuffClean(weight=0.5), "import os\nimport re\nimport json\n", 0.0, "3 findings"),
        (RuffClean(["E711"]), "import os\n", 1.0, None),
    ],
)
def test_what_code_is_worth(leaf: Rubric, text: str, expected: float, reason: str | None) -> None:
    found = scored(leaf, text)
    assert (found.status, found.score) == ("scored", pytest.approx(expected)), found.reason
    assert found.reason is None if reason is None else reason in str(found.reason)


def test_no_configuration_of_this_machine_is_read(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ruff.toml").write_text('lint.ignore = ["F401"]')
    monkeypatch.chdir(tmp_path)
    assert scored(RuffClean(), "import os\n").score == pytest.approx(0.9)


# -- tests that run ---------------------------------------------------------------------------------------------------


def test_code_that_passes_and_code_that_does_not() -> None:
    found = scored(UnitTests(TESTS), RIGHT)
    assert found.score == 1.0 and found.metadata["passed"] == ["test_small", "test_large"]
    found = scored(UnitTests(TESTS), "def add(a, b):\n    return float(a) + b\n")
    assert (found.score, found.reason) == (0.5, "test_large: AssertionError: large numbers")
    assert scored(UnitTests(TESTS, all_or_nothing=True), "def add(a, b):\n    return float(a) + b\n").score == 0.0
    assert scored(UnitTests(TESTS), f"So:\n```python\n{RIGHT}```").score == 1.0
    assert scored(UnitTests(tests_from="task.tests"), RIGHT, {"tests": TESTS}).score == 1.0
    assert scored(UnitTests(TESTS, within="code"), f"<code>{RIGHT}</code>").score == 1.0


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def add(a, b): return a +", "line 1: invalid syntax"),
        ("raise SystemExit(0)", "the code raised SystemExit: 0"),
        ("import sys; sys.exit(0)", "the code raised SystemExit: 0"),
        ("import os; os._exit(0)", "test_small: the process ended before it"),
        ("print('passed test_small'); import os; os._exit(0)", "the process ended before it"),
        (
            WRITES,
            "the process ended before it",
        ),
        ("def add(a, b):\n    import os; os._exit(0)", "the process ended before it"),
        ("import builtins\nbuiltins.AssertionError = type('Fine', (), {})", "add"),
        ("class Any:\n    def __eq__(self, other): return False\ndef add(a, b): return Any()", "AssertionError"),
        ("def add(a, b): raise KeyError('x')", "test_small: KeyError: 'x'"),
        ("x = 'a' * 10**10", "MemoryError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "the process ended before it"),
    ],
)
def test_code_that_cheats_or_breaks_gets_nothing(code: str, reason: str) -> None:
    found = scored(UnitTests(TESTS, megabytes=256), code)
    assert (found.status, found.score) == ("scored", 0.0)
    assert reason in str(found.reason)


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "while True: print('x' * 10000)",
        "def add(a, b):\n    while True: pass",
    ],
)
def test_code_that_does_not_end_is_stopped(code: str) -> None:
    found = scored(UnitTests(TESTS, seconds=1.0), code)
    assert (found.score, found.reason) == (0.0, "it took longer than 1 s")


def test_children_are_stopped_too(tmp_path: Any) -> None:
    mark = tmp_path / "alive"
    code = (
        "import subprocess, sys\n"
        "late = 'import sys, time; time.sleep(0.5); open(sys.argv[1], chr(119))'\n"
        f"subprocess.Popen([sys.executable, '-c', late, {str(mark)!r}])\n{RIGHT}"
    )
    assert scored(UnitTests(TESTS), code).score == 1.0
    time.sleep(1)
    assert not mark.exists()


def test_children_that_went_their_own_way_are_stopped_too(tmp_path: Any) -> None:
    mark = tmp_path / "alive"
    code = (
        "import subprocess, sys\n"
        "late = 'import sys, time; time.sleep(0.5); open(sys.argv[1], chr(119))'\n"
        f"subprocess.Popen([sys.executable, '-c', late, {str(mark)!r}], start_new_session=True)\n{RIGHT}"
    )
    found = scored(UnitTests(TESTS), code)
    if found.metadata["network"]:
        pytest.skip("no namespaces here")
    assert found.score == 1.0
    time.sleep(1)
    assert not mark.exists()


def test_a_child_that_stays_does_not_keep_the_tests_from_ending() -> None:
    code = f"import os, time\nif os.fork() == 0:\n    time.sleep(60)\n{RIGHT}"
    found = scored(UnitTests(TESTS, seconds=20), code)
    if found.metadata["network"]:
        pytest.skip("no namespaces here")
    assert (found.score, found.reason) == (1.0, None)


def test_what_answers_and_tests_may_be() -> None:
    code = """
from __future__ import annotations
from dataclasses import dataclass
import pickle

@dataclass
class Point:
    x: int

    async def moved(self) -> Point:
        return Point(self.x + 1)

def copied(point: Point) -> Point:
    return pickle.loads(pickle.dumps(point))
"""
    tests = """
from answer import Point

async def test_moved():
    assert (await Point(1).moved()) == Point(2)

async def test_not_moved():
    assert (await Point(1).moved()) == Point(1)

def test_copied(x=1):
    assert copied(Point(x)) == Point(x)

def test_copied(x=2):
    assert copied(Point(x)).x == x
"""
    found = scored(UnitTests(tests), code)
    assert found.score == pytest.approx(2 / 3)
    assert found.metadata["passed"] == ["test_moved", "test_copied"]
    assert found.reason == "test_not_moved: AssertionError: assert (await Point(1).moved()) == Point(1)"


def test_the_same_code_gets_the_same_score() -> None:
    code = "def first(): return next(iter({'red', 'green', 'blue', 'white'}))"
    tests = "def test_it():\n    raise ValueError(first())\n"
    assert len({scored(UnitTests(tests), code).reason for _ in range(4)}) == 1


def test_many_open_files_are_no_hindrance() -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("so many files cannot be opened here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            stack.enter_context(open(os.devnull))
        assert scored(UnitTests(TESTS), RIGHT).score == 1.0


def test_it_sees_no_environment_and_no_network() -> None:
    tests = """
def test_environment():
    import os
    assert "A_KEY" not in os.environ

def test_network():
    import socket
    try:
        socket.create_connection(("127.0.0.1", PORT), timeout=2).close()
    except OSError:
        return
    raise AssertionError("there is a network")
"""
    os.environ["A_KEY"] = "secret"
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        found = scored(UnitTests(tests.replace("PORT", str(server.getsockname()[1]))), "x = 1")
    del os.environ["A_KEY"]
    assert "test_environment" in found.metadata["passed"]
    assert ("test_network" in found.metadata["passed"]) is (not found.metadata["network"])


async def test_the_loop_goes_on_while_tests_run() -> None:
    leaf = UnitTests("def test_it():\n    import time\n    time.sleep(1)\n")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    counting = asyncio.create_task(count())
    results = await asyncio.gather(*(leaf.evaluate("x = 1", None) for _ in range(3)))
    counting.cancel()
    assert [each.score for each in results] == [1.0] * 3 and turns > 30


def test_tests_that_cannot_be_run() -> None:
    found = scored(UnitTests(tests_from="task.tests"), RIGHT, {"tests": "def test("})
    assert found.status == "unscored" and str(found.reason).startswith("the tests do not parse")
    assert scored(UnitTests(tests_from="task.tests"), RIGHT, {"tests": 3}).reason == "task.tests is no text"
    assert (
        scored(UnitTests(tests_from="task.tests"), RIGHT, {"tests": "x = 1"}).reason
        == "the tests hold no function test_…"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UnitTests(), "give either tests or tests_from"),
        (lambda: UnitTests("x = 1"), "the tests hold no function"),
        (lambda: UnitTests("def test_it(tmp_path): pass"), "the test test_it wants tmp_path: there are no fixtures"),
        (lambda: UnitTests("def test_it(a, b=1, *, c): pass"), "the test test_it wants a, c:"),
        (lambda: UnitTests("class TestIt:\n    def test_it(self): pass"), "those of the class TestIt would not be run"),
        (lambda: UnitTests(TESTS, seconds=0), "seconds is above 0"),
        (lambda: UnitTests(TESTS, megabytes=1), "megabytes at least 64"),
        (lambda: ImportsAllowed(), "give either allowed or forbidden"),
        (lambda: ImportsAllowed("os"), "a list of names"),
        (lambda: RuffClean([]), "select is a list of rules"),
        (lambda: RuffClean(["E; rm"]), "select is a list of rules"),
        (lambda: RuffClean(weight=0), "weight is above 0"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        make()
