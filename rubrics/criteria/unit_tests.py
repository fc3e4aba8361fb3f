"""`UnitTests`: does code pass its tests.

It is no security boundary. It runs code that a model wrote as a child of this process, with this user's rights: limits
keep it from hanging or filling the machine by accident, not by intent. Code that may be hostile belongs into a
container or a virtual machine.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from rubrics.criteria.base import inside
from rubrics.criteria.code import CodeCheck, parsed
from rubrics.criteria.values import Value
from rubrics.score import Score, StructureError, Unscored


class UnitTests(CodeCheck):
    """Whether code passes its tests: the share of the test functions that pass.

    The code and the tests run in a process of their own, in an empty folder, with an empty environment, and limits on
    time, memory, output, file sizes and (on Linux) processes; it is killed with its children. Where the platform lets a
    user have namespaces of his own (Linux, unless that is switched off) it has no network, which `metadata["network"]`
    says, and no child outlives it.
    Results come over a pipe with a secret of this run, so that what the code prints, and an early exit, count for
    nothing. **This is no security boundary**: see the module.

    Args:
        tests: Python code with functions `test_…`, also async ones, which finds what the answer defines in its own
            namespace, and as the module `answer`; or
        tests_from: a path to it, such as `task.tests`. One of the two is given.
        all_or_nothing: whether one failure makes the score 0.
        seconds: for all of it, by the wall clock; what takes longer scores 0.
        megabytes: of memory.
        of, within: see `ParsesPython`.

    Unscored where the tests cannot be run at all: they do not parse, hold no test, or some that only pytest can run (in
    a class, or with fixtures or parameters).
    """

    is_async = True

    def __init__(
        self,
        tests: str | None = None,
        tests_from: str | None = None,
        all_or_nothing: bool = False,
        seconds: float = 10.0,
        megabytes: int = 512,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        if (tests is None) == (tests_from is None):
            raise StructureError("UnitTests: give either tests or tests_from")
        if not 0.0 < seconds <= 3600.0 or megabytes < 64:
            raise StructureError(f"UnitTests: seconds is above 0 and megabytes at least 64, not {seconds}, {megabytes}")
        self.tests, self.tests_from, self.all_or_nothing = tests, tests_from, all_or_nothing
        self.seconds, self.megabytes = seconds, megabytes
        if tests is not None:
            try:
                _test_names(tests)
            except Unscored as error:
                raise StructureError(f"UnitTests: {error.reason}") from None

    async def forward(self, action: Any, observation: Any) -> float | Score:
        tests = self.tests
        if tests is None:
            found = Value(str(self.tests_from)).read(action, observation, self.task)
            if not isinstance(found, str):
                raise Unscored(f"{self.tests_from} is no text")
            tests = found
        names = _test_names(tests)
        text = self._value.text(action, observation, self.task)
        if self.within is not None:
            said = inside(text, self.within)
            if said is None:
                return Score(0.0, f"there is no <{self.within}>")
            text = said
        code = self.code_in(text)
        if isinstance(tree := parsed(code), Score):
            return tree
        result = await asyncio.to_thread(_run, code, tests, names, self.seconds, self.megabytes)
        metadata = {"network": result.network, "passed": result.passed, "failed": result.failed}
        if result.problem is not None:
            return Score(0.0, result.problem, metadata)
        share = len(result.passed) / len(names)
        value = float(share == 1.0) if self.all_or_nothing else share
        first = next(iter(result.failed.items()), None)
        return Score(value, None if first is None else f"{first[0]}: {first[1]}"[:200], metadata)


def _test_names(tests: str) -> list[str]:
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError) as error:
        raise Unscored(f"the tests do not parse: {error}") from None
    names: dict[str, None] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            raise Unscored(f"tests are functions; those of the class {node.name} would not be run")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            if needed := _needed(node.args):
                raise Unscored(f"the test {node.name} wants {needed}: there are no fixtures and no parameters")
            names[node.name] = None
    if not names:
        raise Unscored("the tests hold no function test_…")
    return list(names)


def _needed(arguments: ast.arguments) -> str:
    """The arguments that a function cannot be called without."""
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = positional[: len(positional) - len(arguments.defaults)]
    needed += [one for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is None]
    return ", ".join(each.arg for each in needed)


class _Result:
    def __init__(self, network: bool) -> None:
        self.network, self.problem = network, None  # type: bool, str | None
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}


_APART = ("--user", "--map-current-user", "--net", "--pid", "--fork", "--kill-child", "--")


@cache
def _apart() -> list[str]:
    """The beginning of a command that gives a process a network of its own, empty, and ends all children with it;
    nothing where that cannot be."""
    unshare, shell = shutil.which("unshare"), shutil.which("sh")
    if unshare is None or shell is None:
        return []
    # The shell is the first process of the namespace, which signals of its own children cannot end.
    command = [unshare, *_APART, shell, "-c", '"$@"; exit $?', shell]
    try:
        done = subprocess.run([*command, sys.executable, "-c", ""], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return command if done.returncode == 0 else []


def _run(code: str, tests: str, names: list[str], seconds: float, megabytes: int) -> _Result:
    apart = _apart()
    result = _Result(network=not apart)
    secret = secrets.token_hex(16)
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="unit-tests-", ignore_cleanup_errors=True) as folder:
        given = Path(folder) / "given.json"
        given.write_text(json.dumps({"code": code, "tests": tests, "names": names}), encoding="utf-8")
        environment = {"PATH": os.defpath, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        # As -I, which would also leave PYTHONHASHSEED out: the same code gets the same score each time.
        python = [sys.executable, "-s", "-P", "-c", _HARNESS]
        command = [*apart, *python, str(given), str(writing), str(megabytes), str(seconds)]
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(writing,),
            start_new_session=True,
        )
        os.close(writing)
        try:
            assert process.stdin is not None
            process.stdin.write(secret.encode())
            process.stdin.close()
            said, in_time = _said(reading, seconds)
        finally:
            os.close(reading)
            _kill(process)
    for line in said.splitlines():
        words = line.split(" ", 3)
        if len(words) < 3 or words[0] != secret or words[2] not in names:
            continue  # the code wrote it
        if words[1] == "passed" and words[2] not in result.failed and words[2] not in result.passed:
            result.passed.append(words[2])
        elif words[1] == "failed":
            result.failed[words[2]] = words[3] if len(words) > 3 else ""
    if not in_time:
        result.problem = f"it took longer than {seconds:g} s"
    for name in names:
        if name not in result.passed:
            result.failed.setdefault(name, "the process ended before it" if in_time else "there was no time for it")
    return result


def _said(reading: int, seconds: float) -> tuple[str, bool]:
    """What comes over a pipe until it is closed, and whether it was in time."""
    end, parts, size, in_time = monotonic() + seconds, list[bytes](), 0, False
    with selectors.DefaultSelector() as ready:  # select itself knows no file descriptor above 1023
        ready.register(reading, selectors.EVENT_READ)
        while not in_time and (left := end - monotonic()) > 0.0:
            if ready.select(left):
                parts.append(os.read(reading, 65536))
                size += len(parts[-1])
                in_time = not parts[-1] or size > 1_000_000
    return b"".join(parts).decode("utf-8", "replace"), in_time


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


_HARNESS = r"""
import json, os, sys, types
given, out, megabytes, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
secret = sys.stdin.read()
data = json.load(open(given))
os.unlink(given)
sys.argv = ["answer.py"]
try:
    import resource
    def limit(name, value):
        if hasattr(resource, name):
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (value, value))
    limit("RLIMIT_AS", megabytes * 2**20)
    limit("RLIMIT_CPU", int(seconds) + 1)
    limit("RLIMIT_FSIZE", 16 * 2**20)
    limit("RLIMIT_CORE", 0)
    if os.getuid() != 0:
        limit("RLIMIT_NPROC", 256)
except ImportError:
    pass
def run(secret, data):
    # What decides is kept in cells: the code can reach them only by looking for them on purpose.
    write, exit_, told = os.write, os._exit, secret
    def say(what, name, why=""):
        write(out, (" ".join([told, what, name, " ".join(str(why).split())[:150]]) + "\n").encode("utf-8", "replace"))
    def why(error):
        line, trace = "", error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "tests.py":
                line = tests.splitlines()[trace.tb_lineno - 1]
            trace = trace.tb_next
        return f"{type(error).__name__}: {str(error) or line}"
    names, module = data["names"], types.ModuleType("answer")
    sys.modules["answer"], space = module, vars(module)  # where dataclasses and pickle look for it
    code, tests = data["code"], data["tests"]
    try:
        exec(compile(code, "answer.py", "exec"), space)
    except BaseException as error:
        for name in names:
            say("failed", name, "the code raised " + why(error))
        exit_(0)
    for name in names:
        scope = dict(space)
        try:
            exec(compile(tests, "tests.py", "exec"), scope)
            done = scope[name]()
            if hasattr(done, "__await__"):
                __import__("asyncio").run(done)
        except BaseException as error:
            say("failed", name, why(error))
        else:
            say("passed", name)
    exit_(0)
taken = [secret, data]
del secret, data
run(*[taken.pop(0), taken.pop(0)])
"""
