"""An NBD client written by hand, which may do what no client does."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Self

OPTION = b"IHAVEOPT"
REQUEST = 0x25609513
SIMPLE = 0x67446698
CHUNK = 0x668E33EF

READ, WRITE, DISCONNECT, FLUSH, TRIM, CACHE, ZEROES, STATUS = range(8)
FUA = 1

EPERM, EIO, EINVAL, ENOSPC, EOVERFLOW = 1, 5, 22, 28, 75


def request(
    kind: int,
    offset: int = 0,
    length: int = 0,
    cookie: int = 0,
    flags: int = 0,
    magic: int = REQUEST,
) -> bytes:
    """The 28 bytes of a request."""
    return struct.pack(">IHHQQI", magic, flags, kind, cookie, offset, length)


def option(number: int, data: bytes = b"") -> bytes:
    """An option of the handshake."""
    return OPTION + struct.pack(">II", number, len(data)) + data


class Client:
    """A connection, through its handshake.

    Args:
        path: the server's socket.
        structured: replies to reads come in chunks.
    """

    def __init__(self, path: Path, *, structured: bool = False, timeout: float = 60.0) -> None:
        self.socket = raw(path, timeout)
        self.structured = structured
        assert self.take(18)[:16] == b"NBDMAGIC" + OPTION
        self.socket.sendall(struct.pack(">I", 3))
        if structured:
            self.socket.sendall(option(8))
            assert struct.unpack(">I", self.take(20)[12:16]) == (1,)
        self.socket.sendall(option(1))
        self.size, self.flags = struct.unpack(">QH", self.take(10))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def take(self, count: int) -> bytes:
        """So many bytes.

        Raises:
            EOFError: the server has closed.
        """
        got = bytearray()
        while len(got) < count:
            piece = self.socket.recv(count - len(got))
            if not piece:
                raise EOFError
            got += piece
        return bytes(got)

    def reply(self) -> tuple[int, int]:
        """Error and cookie of a simple reply."""
        magic, error, cookie = struct.unpack(">IIQ", self.take(16))
        assert magic == SIMPLE
        return error, cookie

    def ask(
        self, kind: int, offset: int = 0, length: int = 0, body: bytes = b"", flags: int = 0
    ) -> int:
        """Error of a request without data in its reply."""
        self.socket.sendall(request(kind, offset, length or len(body), 7, flags) + body)
        error, cookie = self.reply()
        assert cookie == 7
        return error

    def read(self, offset: int, length: int) -> bytes | int:
        """Data, or an error."""
        self.socket.sendall(request(READ, offset, length, 9))
        if not self.structured:
            error, _ = self.reply()
            return error or self.take(length)
        data = bytearray(length)
        while True:
            magic, flags, kind, cookie, size = struct.unpack(">IHHQI", self.take(20))
            assert (magic, cookie) == (CHUNK, 9)
            body = self.take(size)
            if kind == 0x8001:
                return struct.unpack(">I", body[:4])[0]
            if kind == 1:
                at = struct.unpack(">Q", body[:8])[0] - offset
                data[at : at + size - 8] = body[8:]
            if flags & 1:
                return bytes(data)


def raw(path: Path, timeout: float = 60.0) -> socket.socket:
    """A connection on which nothing was said."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(timeout)
    client.connect(str(path))
    return client
