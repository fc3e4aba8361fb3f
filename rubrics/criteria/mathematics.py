"""Comparing expressions in processes of their own: sympy may take for ever, and only a process can be stopped."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from typing import Literal

Verdict = Literal["equal", "not equal", "unreadable", "unreadable reference", "too slow"]
_LONGEST = 20_000  # characters that are sent; an answer stands at the end of a text
_START = 60.0  # seconds that the process may take to import sympy


class _Worker:
    """A process that compares, one pair at a time; for one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, pair: tuple[str, str], seconds: float) -> Verdict:
        """What the process says of a pair. Where it takes too long it is stopped; the next pair starts another."""
        try:
            line = self._asked(pair, seconds)
        except OSError:  # it had died since the last pair
            self.stop()
            line = self._asked(pair, seconds)
        except BaseException:  # such as an interrupt: its answer would be taken for that of the next pair
            self.stop()
            raise
        if not line:
            self.stop()
        return "too slow" if line is None else json.loads(line) if line else "unreadable"

    def _asked(self, pair: tuple[str, str], seconds: float) -> str | None:
        process = self._running()
        assert process.stdin is not None
        process.stdin.write(json.dumps([*pair, seconds + 1.0]) + "\n")
        process.stdin.flush()
        return self._line(process, seconds)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            if not self._line(self._process, _START):
                self.stop()
                raise RuntimeError("the process that compares expressions did not start: is math-verify installed?")
        assert self._process is not None
        return self._process

    @staticmethod
    def _line(process: subprocess.Popen[str], seconds: float) -> str | None:
        """A line of the process; empty where it ended, None where none came in time."""
        found: list[str] = []

        def read() -> None:
            assert process.stdout is not None
            found.append(process.stdout.readline())

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(seconds)
        if not found:
            process.kill()  # which ends the reader as well
            reader.join()
            return None
        return found[0]

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


class _Workers:
    """As many processes at once as there are processors, so that a slow pair does not hold up all threads."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._idle: list[_Worker] = []

    def ask(self, pair: tuple[str, str], seconds: float) -> Verdict:
        with self._free:
            try:
                worker = self._idle.pop()  # the one that was used last
            except IndexError:
                worker = _Worker()
            try:
                return worker.ask(pair, seconds)
            finally:
                self._idle.append(worker)

    def stop(self) -> None:
        """End the processes that wait."""
        for worker in self._idle:
            worker.stop()


# The limits hold where nobody is left to stop it: of memory (a power of powers fills it before its time is over), and
# of time, by a watchdog that does not wait for the interpreter.
_PROGRAM = """
import faulthandler, json, logging, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
null = open(os.devnull, "w")
logging.disable(logging.CRITICAL)
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
except (ImportError, ValueError, OSError):
    pass
from math_verify import parse, verify
parse("1", parsing_timeout=None)
print("ready", file=out, flush=True)
for line in sys.stdin:
    answer, reference, seconds = json.loads(line)
    faulthandler.dump_traceback_later(seconds, exit=True, file=null)
    try:
        gold = parse(reference, parsing_timeout=None) or parse(f"${reference}$", parsing_timeout=None)
        said = parse(answer, parsing_timeout=None) or parse(f"${answer}$", parsing_timeout=None)
        if not gold:
            verdict = "unreadable reference"
        elif not said:
            verdict = "unreadable"
        else:
            verdict = "equal" if verify(gold, said, timeout_seconds=None) else "not equal"
    except Exception:
        verdict = "unreadable"
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(verdict), file=out, flush=True)
"""
_workers = _Workers()
_parents: list[_Workers] = []


def equal(answer: str, reference: str, seconds: float) -> Verdict:
    """Whether an answer and a reference are equal as mathematics.

    Args:
        answer, reference: texts with LaTeX or plain expressions; the last expression of a text counts.
        seconds: that the comparison may take.
    """
    return _workers.ask((answer[-_LONGEST:], reference[-_LONGEST:]), seconds)


def _stop() -> None:
    _workers.stop()


def _forget() -> None:
    """After a fork, the processes belong to the parent; they are not dropped, which would complain that they run."""
    global _workers
    _parents.append(_workers)
    _workers = _Workers()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
