"""The members of a zip file, each read by itself, so that one that is damaged costs no other.

A zip file tells at its end what is in it. Of one that was cut off, the members that are whole are found by walking
through it from the start.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from rubrics.formats.parsing import FormatError

_LOCAL = struct.Struct("<4s5H3I2H")  # what stands before the name of a member
_SIGNATURE = b"PK\x03\x04"
_ZIP64 = 0xFFFFFFFF
_STORED, _DEFLATED, _ZSTD = 0, 8, 93


@dataclass(frozen=True, slots=True)
class _Member:
    start: int
    size: int
    method: int
    crc: int


class Archive:
    """What a zip file holds, by name. `damage` says what is wrong with the file, None where nothing is."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.damage: str | None = None
        self.members: dict[str, _Member] = {}
        try:
            with zipfile.ZipFile(file) as whole:
                for info in whole.infolist():
                    self.members[info.filename] = _Member(
                        info.header_offset, info.compress_size, info.compress_type, info.CRC
                    )
        except zipfile.BadZipFile as error:
            self.damage = f"the zip file has no readable table of contents, most likely it was cut off ({error})"
            self.members = dict(self._walk())

    def read(self, name: str) -> bytes:
        """A member, decompressed.

        Raises:
            FormatError: there is none of this name, or it cannot be read; the message names it.
        """
        if name not in self.members:
            raise FormatError(f"{name}: not in the zip file")
        member = self.members[name]
        self.file.seek(member.start)
        header = self.file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(_SIGNATURE):
            raise FormatError(f"{name}: is not where the zip file says it is")
        *_, length, extra = _LOCAL.unpack(header)
        self.file.seek(length + extra, os.SEEK_CUR)
        data = _decompressed(self.file.read(member.size), member.method, name)
        if zlib.crc32(data) != member.crc:
            raise FormatError(f"{name}: is damaged, its checksum differs")
        return data

    def _walk(self) -> Iterator[tuple[str, _Member]]:
        end = self.file.seek(0, os.SEEK_END)
        at = 0
        while True:
            self.file.seek(at)
            header = self.file.read(_LOCAL.size)
            if len(header) < _LOCAL.size or not header.startswith(_SIGNATURE):
                return
            _, _, flags, method, _, _, crc, size, full, length, extra = _LOCAL.unpack(header)
            name = self.file.read(length).decode(errors="replace")
            more = self.file.read(extra)
            if size == _ZIP64:
                size = _large_size(more, full)
            start, at = at, at + _LOCAL.size + length + extra + size
            if at > end or (flags & 8 and not size):  # or its size stands behind it
                self.damage = f"{self.damage}; it ends in the middle of {name}"
                return
            yield name, _Member(start, size, method, crc)


def _large_size(extra: bytes, full: int) -> int:
    """The compressed size of a member that may be larger than 4 GB."""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<HH", extra)
        if kind == 1:
            sizes = struct.unpack_from(f"<{length // 8}Q", extra, 4)
            return int(sizes[1] if full == _ZIP64 and len(sizes) > 1 else sizes[0])
        extra = extra[4 + length :]
    return _ZIP64


def _decompressed(data: bytes, method: int, name: str) -> bytes:
    if method == _STORED:
        return data
    try:
        if method == _DEFLATED:
            return zlib.decompress(data, -zlib.MAX_WBITS)
        if method == _ZSTD:
            return _zstd(data, name)
    except zlib.error as error:
        raise FormatError(f"{name}: is damaged: {error}") from None
    raise FormatError(f"{name}: is compressed by the method {method} of zip, which is not known here")


def _zstd(data: bytes, name: str) -> bytes:
    try:
        import zstandard
    except ImportError as error:
        raise FormatError(
            f"{name}: is compressed with Zstandard, which needs zstandard ({error}); pip install 'rubrics[zstd]'"
        ) from error
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            return bytes(reader.read())
    except zstandard.ZstdError as error:
        raise FormatError(f"{name}: is damaged: {error}") from None
