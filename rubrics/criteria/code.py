"""Criteria of Python code: does it parse, is it clean, what does it import, does it pass its tests.

Nothing here is a security boundary. `UnitTests` runs code that a model wrote as a child of this process, with this
user's rights: limits keep it from hanging or filling the machine by accident, not by intent. Code that may be hostile
belongs into a container or a virtual machine.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from rubrics.criteria.base import TextCheck, clean, inside, library
from rubrics.criteria.structure import fenced
from rubrics.criteria.values import Value
from rubrics.score import Score, StructureError, Unscored


class _CodeCheck(TextCheck):
    """A leaf that looks at Python code: the last fenced block of Python in a text, or all of it where there is none.

    Args:
        of, within: see `TextCheck`.
    """

    def code_in(self, text: str) -> str:
        """The code of a text."""
        blocks = fenced(text, "python") or fenced(text, "py") or fenced(text, "python3") or fenced(text)
        return clean(blocks[-1] if blocks else text)


def _parsed(code: str) -> ast.Module | Score:
    """The syntax tree of code, or the score of code that has none."""
    try:
        return ast.parse(code)
    except SyntaxError as error:
        return Score(0.0, f"line {error.lineno}: {error.msg}"[:200])
    except (ValueError, RecursionError, MemoryError) as error:
        return Score(0.0, f"it cannot be parsed: {error or type(error).__name__}"[:200])


class ParsesPython(_CodeCheck):
    """Whether code is Python.

    Args:
        compiles: whether it must compile as well, which finds `return` outside of a function and the like.
        of, within: see `TextCheck`; of a text with fenced code blocks the last one of Python counts.
    """

    def __init__(self, compiles: bool = True, of: str = "action", within: str | None = None) -> None:
        super().__init__(of, within)
        self.compiles = compiles

    def score_text(self, text: str) -> Score:
        tree = _parsed(self.code_in(text))
        if isinstance(tree, Score):
            return tree
        if self.compiles:
            try:
                compile(tree, "<answer>", "exec", dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                return Score(0.0, f"it does not compile: {error}"[:200])
        return Score(1.0)


class ImportsAllowed(_CodeCheck):
    """Whether code imports only what is allowed.

    Args:
        allowed: names of packages and modules; a package allows what is in it. Relative imports are not allowed.
        forbidden: in its place, what may not be imported, such as `os` and `subprocess`.
        of, within: see `ParsesPython`.

    It reads import statements, and calls of `__import__` and `import_module` with a text; code can hide from it.
    """

    def __init__(
        self,
        allowed: Sequence[str] | None = None,
        forbidden: Sequence[str] | None = None,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        if (allowed is None) == (forbidden is None) or isinstance(allowed, str) or isinstance(forbidden, str):
            raise StructureError("ImportsAllowed: give either allowed or forbidden, a list of names")
        self.allowed, self.forbidden = allowed, forbidden

    def score_text(self, text: str) -> Score:
        tree = _parsed(self.code_in(text))
        if isinstance(tree, Score):
            return tree
        names = sorted(set(_imports(tree)))
        if self.allowed is not None:
            wrong = [name for name in names if not _listed(name, self.allowed)]
        else:
            wrong = [name for name in names if _listed(name, self.forbidden or ())]
        return Score(float(not wrong), f"it imports {', '.join(wrong)}"[:200] if wrong else None)


def _imports(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names] if not node.level else ["."]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called in ("__import__", "import_module") and isinstance(node.args[0].value, str):
                found.append(node.args[0].value)
    return found


def _listed(name: str, names: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in names)


class RuffClean(_CodeCheck):
    """How clean code is by ruff: 1 without findings, less by a tenth for each (`weight`), never below 0.

    Args:
        select: rules, such as `E`, `F`, `B`; by default those that find errors.
        weight: what each finding costs.
        line_length: for rules on it.
        of, within: see `ParsesPython`.

    No configuration of this machine is read, and nothing of the code runs. It starts a process: in async code, wrap the
    leaf in `rubrics.Threaded`. Source: ruff.
    """

    extra: ClassVar[str | None] = "code"

    def __init__(
        self,
        select: Sequence[str] = ("E4", "E7", "E9", "F"),
        weight: float = 0.1,
        line_length: int = 120,
        of: str = "action",
        within: str | None = None,
    ) -> None:
        super().__init__(of, within)
        if not select or isinstance(select, str) or not all(each.isalnum() for each in select):
            raise StructureError(f"RuffClean: select is a list of rules, such as ['E', 'F'], not {select!r}")
        if not 0.0 < weight <= 1.0:
            raise StructureError(f"RuffClean: weight is above 0 and at most 1, not {weight}")
        self.select, self.weight, self.line_length = list(select), weight, line_length

    def _require(self) -> None:
        if _ruff() is None:
            library("ruff", "code", self)

    def score_text(self, text: str) -> Score:
        command = [str(_ruff()), "check", "--isolated", "--no-cache", "--output-format", "json", "--select"]
        command += [",".join(self.select), "--line-length", str(self.line_length), "--stdin-filename", "answer.py", "-"]
        done = subprocess.run(
            command, input=self.code_in(text), capture_output=True, text=True, timeout=60, check=False, encoding="utf-8"
        )
        if done.returncode not in (0, 1):
            raise Unscored(f"ruff failed: {done.stderr.strip()[:160]}")
        found = json.loads(done.stdout)
        first = "" if not found else f"line {found[0]['location']['row']}: {found[0]['message']}"
        return Score(
            max(0.0, 1.0 - self.weight * len(found)), f"{len(found)} findings, {first}"[:200] if found else None
        )


@cache
def _ruff() -> str | None:
    beside = Path(sys.executable).with_name("ruff")
    return str(beside) if beside.exists() else shutil.which("ruff")


class UnitTests(_CodeCheck):
    """Whether code passes its tests: the share of the test functions that pass.

    The code and the tests run in a process of their own, in an empty folder, with an empty environment, and limits on
    time, memory, output, file sizes and (on Linux) processes; it is killed with all of its children. Where the platform
    lets a user have a network of his own (Linux, unless that is switched off) it has none; `metadata["network"]` says.
    Results come over a pipe with a secret of this run, so that what the code prints, and an early exit, count for
    nothing. **This is no security boundary**: see the module.

    Args:
        tests: Python code with functions `test_…`, which finds what the answer defines in its own namespace; or
        tests_from: a path to it, such as `task.tests`. One of the two is given.
        all_or_nothing: whether one failure makes the score 0.
        seconds: for all of it, by the wall clock; what takes longer scores 0.
        megabytes: of memory.
        of, within: see `ParsesPython`.

    Unscored where the tests cannot be run at all: they do not parse, or hold no test.
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
        if isinstance(parsed := _parsed(code), Score):
            return parsed
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
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]
    if not names:
        raise Unscored("the tests hold no function test_…")
    return names


class _Result:
    def __init__(self, network: bool) -> None:
        self.network, self.problem = network, None  # type: bool, str | None
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}


@cache
def _without_network() -> list[str]:
    """The beginning of a command that gives a process a network of its own, empty; nothing where that cannot be."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return []
    command = [unshare, "--user", "--map-current-user", "--net", "--"]
    try:
        done = subprocess.run([*command, sys.executable, "-c", ""], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return command if done.returncode == 0 else []


def _run(code: str, tests: str, names: list[str], seconds: float, megabytes: int) -> _Result:
    apart = _without_network()
    result = _Result(network=not apart)
    secret = secrets.token_hex(16)
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="unit-tests-") as folder:
        given = Path(folder) / "given.json"
        given.write_text(json.dumps({"code": code, "tests": tests, "names": names}), encoding="utf-8")
        environment = {"PATH": os.defpath, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
        command = [*apart, sys.executable, "-I", "-c", _HARNESS, str(given), str(writing), str(megabytes), str(seconds)]
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
    end, parts, size = monotonic() + seconds, list[bytes](), 0
    while (left := end - monotonic()) > 0.0:
        ready, _, _ = select.select([reading], [], [], left)
        if not ready:
            break
        part = os.read(reading, 65536)
        if not part or size > 1_000_000:
            return b"".join(parts).decode("utf-8", "replace"), True
        parts.append(part)
        size += len(part)
    return b"".join(parts).decode("utf-8", "replace"), False


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


_HARNESS = r"""
import json, os, sys
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
        return f"{type(error).__name__}: {error}"
    names, space = data["names"], {"__name__": "answer", "__builtins__": __builtins__}
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
            scope[name]()
        except BaseException as error:
            say("failed", name, why(error))
        else:
            say("passed", name)
    exit_(0)
taken = [secret, data]
del secret, data
run(*[taken.pop(0), taken.pop(0)])
"""
