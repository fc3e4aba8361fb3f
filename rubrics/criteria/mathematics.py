"""Comparing expressions in a process of its own: sympy may take for ever, and only a process can be stopped."""

from __future__ import annotations

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
    """A process that compares, one pair at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def ask(self, pair: tuple[str, str], seconds: float) -> Verdict:
        """What the process says of a pair. Where it takes too long it is stopped; the next pair starts another."""
        with self._lock:
            try:
                line = self._asked(pair, seconds)
            except OSError:  # it had died since the last pair
                self._stop()
                line = self._asked(pair, seconds)
            if not line:
                self._stop()
            return "too slow" if line is None else json.loads(line) if line else "unreadable"

    def _asked(self, pair: tuple[str, str], seconds: float) -> str | None:
        process = self._running()
        assert process.stdin is not None
        process.stdin.write(json.dumps(pair) + "\n")
        process.stdin.flush()
        return self._line(process, seconds)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            if not self._line(self._process, _START):
                self._stop()
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

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


_PROGRAM = """
import json, logging, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
logging.disable(logging.CRITICAL)
from math_verify import parse, verify
parse("1", parsing_timeout=None)
print("ready", file=out, flush=True)
for line in sys.stdin:
    answer, reference = json.loads(line)
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
    print(json.dumps(verdict), file=out, flush=True)
"""
_worker = _Worker()


def equal(answer: str, reference: str, seconds: float) -> Verdict:
    """Whether an answer and a reference are equal as mathematics.

    Args:
        answer, reference: texts with LaTeX or plain expressions; the last expression of a text counts.
        seconds: that the comparison may take.
    """
    return _worker.ask((answer[-_LONGEST:], reference[-_LONGEST:]), seconds)


def _forget() -> None:
    """After a fork, the process belongs to the parent."""
    global _worker
    _worker = _Worker()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
