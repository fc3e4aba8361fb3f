"""Files as they were before somebody compressed them: gzip and Zstandard, told by their first bytes."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

from rubrics.formats.parsing import FormatError

_CHUNK = 1 << 14
_MARK = 4  # bytes that one read gives at least: what stands at the start of a file is peeked at
_BUFFER = 1 << 18  # a line is often longer than the 8 KB of a usual buffer
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
SUFFIXES = (".gz", ".zst", ".bz2", ".xz")


def open_decompressed(path: Path) -> io.BufferedReader:
    """The content of a file, decompressed where its first bytes say that it is compressed.

    What is compressed can be read once, from the start. Raises OSError, and FormatError where
    `zstandard` is missing or the compression is another one.
    """
    file: io.BufferedReader = io.BufferedReader(io.FileIO(path), _BUFFER)
    try:
        magic = file.peek(10)[:10]
        if magic.startswith(_GZIP):
            return io.BufferedReader(_Decompressed(file, "gzip", lambda: zlib.decompressobj(31), zlib.error))
        if magic.startswith(_ZSTD):
            return io.BufferedReader(_zstd(file))
        if other := "bzip2" if magic[4:] == b"1AY&SY" else "xz" if magic.startswith(b"\xfd7zXZ") else None:
            raise FormatError(f"the file is compressed with {other}, which is not read; decompress it first")
    except BaseException:
        file.close()
        raise
    return file


def damage(file: io.BufferedReader) -> str | None:
    """What is wrong with the compressed data, as far as the file was read; None where nothing is, or it is plain."""
    return file.raw.damage if isinstance(file.raw, _Decompressed) else None


def _zstd(file: BinaryIO) -> _Decompressed:
    try:
        import zstandard
    except ImportError as error:
        raise FormatError(
            f"the file is compressed with Zstandard, which needs zstandard ({error}); pip install 'rubrics[zstd]'"
        ) from error
    return _Decompressed(file, "Zstandard", zstandard.ZstdDecompressor().decompressobj, zstandard.ZstdError)


class _Decompressed(io.RawIOBase):
    """A stream that ends where the compressed data are cut or damaged, so that all that stands before can be read."""

    def __init__(self, file: BinaryIO, kind: str, start: Callable[[], Any], error: type[Exception]) -> None:
        self.file, self.kind, self.start, self.error = file, kind, start, error
        self.stream: Any = None  # between two members of the file there is none
        self.ready = memoryview(b"")
        self.complete = False
        self.damage: str | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while len(self.ready) < _MARK and not self.complete:
            self._decompress(self.file.read(_CHUNK))
        size = min(len(buffer), len(self.ready))
        buffer[:size] = self.ready[:size]
        self.ready = self.ready[size:]
        return size

    def _decompress(self, data: bytes) -> None:
        if not data:
            self.complete = True
            if self.stream is not None:
                self.damage = f"the {self.kind} data end in the middle: the file was cut off"
        parts = [bytes(self.ready)]
        while data:
            if self.stream is None:
                data = data.lstrip(b"\0")  # padding
                if not data:
                    break
                self.stream = self.start()
            try:
                parts.append(cast(bytes, self.stream.decompress(data)))
            except self.error as error:
                self.damage, self.complete = f"the {self.kind} data are damaged: {error}", True
                break
            data = b""
            if self.stream.eof:
                data, self.stream = self.stream.unused_data, None
        self.ready = memoryview(b"".join(parts))

    def close(self) -> None:
        self.file.close()
        super().close()
