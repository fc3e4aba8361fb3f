"""JSON values that do not keep to lines, one at a time: elements of a large array, documents one after the other."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import BinaryIO

from rubrics.formats.parsing import FormatError, Parsed, checked

_CHUNK = 1 << 16
_LITERAL = 32  # this close to the end of the buffer, a number or a word may go on
_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")


def elements(file: BinaryIO, line: int = 1) -> Iterator[Parsed]:
    """The elements of the array that starts in `file`, each with its line; `line` is the one that the file stands at.

    The buffer grows to the largest element, not to the file. Raises FormatError, with the line, at the first thing that
    is not JSON: behind it, nobody can say where the next element starts.
    """
    buffer = _Buffer(file, line, "the array")
    buffer.skip("[")
    follow = buffer.peek()
    while follow != "]":
        yield buffer.value()
        follow = buffer.peek()
        if follow == ",":
            buffer.skip(",")
        elif follow != "]":
            raise buffer.error(f"not JSON: {follow!r} between two elements of the array" if follow else buffer.cut)
    buffer.skip("]")
    if rest := buffer.peek():
        raise buffer.error(f"not JSON: {rest!r} behind the end of the array")


def documents(file: BinaryIO, line: int = 1, before: bytes = b"") -> Iterator[Parsed]:
    """The JSON values that stand in `file` one after the other, over as many lines as they like.

    `before` was read of it already; `line` is where that starts. The buffer grows to the largest value. Raises
    FormatError as `elements` does.
    """
    buffer = _Buffer(file, line, "a JSON document", before)
    while buffer.peek():
        yield buffer.value()


class _Buffer:
    def __init__(self, file: BinaryIO, line: int, whole: str, before: bytes = b"") -> None:
        self.file, self.before = file, before
        self.cut = f"the file ends in the middle of {whole}"
        self.decode = codecs.getincrementaldecoder("utf-8")().decode
        self.json = json.JSONDecoder()
        self.text, self.at, self.line = "", 0, line
        self.complete = False
        self.bad_bytes: UnicodeDecodeError | None = None

    def fill(self) -> None:
        """Reads as much again as is left in the buffer, so that a large element costs time linear in its size."""
        rest = self.text[self.at :]
        data = self.before or self.file.read(max(_CHUNK, len(rest)))
        self.before = b""
        self.complete = not data
        try:
            more = self.decode(data, final=self.complete)
        except UnicodeDecodeError as error:
            self.bad_bytes, self.complete = error, True
            more = error.object[: error.start].decode()
        self.text, self.at = rest + more, 0

    def peek(self) -> str:
        """The next character that is not white space, "" at the end of the file."""
        while True:
            while self.at < len(self.text):
                character = self.text[self.at]
                if character not in " \t\r\n":
                    return character
                self.line += character == "\n"
                self.at += 1
            if self.complete:
                return ""
            self.fill()

    def skip(self, character: str) -> None:
        if self.peek() != character:
            raise self.error(f"not JSON: expected {character!r}")
        self.at += 1

    def value(self) -> Parsed:
        self.peek()
        while True:
            try:
                value, end = self.json.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                unfinished = error.msg.startswith("Unterminated") or error.pos > len(self.text) - _LITERAL
                if self.complete or not unfinished:
                    cut = self.complete and self.ends_in(error)
                    raise self.error(self.cut if cut else f"not JSON: {error.msg}", error.pos) from None
            except (ValueError, RecursionError) as error:
                raise self.error(f"JSON that cannot be read: {error}") from None
            else:
                if end < len(self.text) - _LITERAL or self.complete:
                    break
            self.fill()
        text, line = self.text[self.at : end], self.line
        self.at, self.line = end, line + text.count("\n")
        return checked(value, text, line)

    def ends_in(self, error: json.JSONDecodeError) -> bool:
        """Whether nothing but the end of the file is wrong."""
        rest = self.text[error.pos :].rstrip()
        return error.msg.startswith("Unterminated") or any(word.startswith(rest) for word in _WORDS)

    def error(self, message: str, position: int | None = None) -> FormatError:
        if self.bad_bytes is not None:
            message = f"not UTF-8: {self.bad_bytes.reason}"
            position = len(self.text)
        if position is None:
            return FormatError(message, self.line)
        line = self.line + self.text.count("\n", self.at, position)
        return FormatError(message + (f"; the value starts at line {self.line}" if line != self.line else ""), line)
