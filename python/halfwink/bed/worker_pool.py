"""A pool of workers that answers the prototype's workloads (see `halfwink.bed.prototype`)."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from halfwink.errors import HalfwinkError, RunError
from halfwink.live import native


class Pool:
    """Workers that answer ``/WORKLOAD/NUMBER``, each on a CPU of its own, one request at a time."""

    def __init__(
        self,
        folder: Path | str,
        *,
        workers: int = 1,
        listen: str = "127.0.0.1:0",
        name: str = "pool",
        cpus: Sequence[int] = (),
        slow: float = 1.0,
        slow_by: Literal["wait", "spin"] = "wait",
        repeat: int = 1,
        quota: float | None = None,
    ) -> None:
        """Begins to serve on its address.

        Args:
            folder: folder of a data set.
            workers: requests in service at once, at most; all others wait in one queue.
            listen: ``HOST:PORT`` or ``unix:PATH``.
            name: name in the ``X-Backend`` header of answers.
            cpus: CPUs of the workers, in turn.
            slow: a request takes so many times its processor time.
            slow_by: ``wait`` sleeps and leaves the CPU to others, ``spin`` does the work again.
            repeat: the work is done so many times.
            quota: per cent of one CPU that this whole process gets (a control group).

        Raises:
            HalfwinkError: an option is invalid.
            RunError: the kernel refuses.
        """
        self._native = native.WorkerPool(
            str(folder),
            name=name,
            listen=listen,
            workers=workers,
            cpus=list(cpus),
            slow=slow,
            slow_by=slow_by,
            repeat=repeat,
            quota=quota,
        )

    @property
    def address(self) -> str:
        """Address that it listens on: ``HOST:PORT`` or ``unix:PATH``."""
        return self._native.address

    @property
    def url(self) -> str:
        """Address as a load takes it."""
        address = self._native.address
        return address if address.startswith("unix:") else f"http://{address}"

    @property
    def is_running(self) -> bool:
        """Tells whether all workers are alive."""
        return self._native.is_running

    def report(self) -> dict[str, Any]:
        """Returns the measured report: requests, busy and processor seconds of each worker."""
        return self._native.report()

    def stop(self) -> dict[str, Any]:
        """Ends it: requests in service are answered first. What was done."""
        self._native.stop()
        return self._native.report()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()


def info(url: str) -> dict[str, Any]:
    """Returns the settings of a pool: ``workers``, ``files``, ``slow``, ``repeat``, ``name``.

    Raises:
        RunError: the pool cannot be reached.
        HalfwinkError: the server is not a pool of halfwink's.
    """
    connection: http.client.HTTPConnection
    if url.startswith("unix:"):
        connection = _Unix(url.removeprefix("unix:"))
    else:
        parts = urllib.parse.urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme != "http" or not host:
            raise HalfwinkError(f"{url}: expected http://HOST:PORT or unix:PATH")
        connection = http.client.HTTPConnection(host, port or 80, timeout=10)
    try:
        connection.request("GET", "/info")
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise RunError(f"{url}: {error}") from None
    finally:
        connection.close()
    try:
        found = json.loads(body) if answer.status == 200 else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or "workers" not in found:
        raise HalfwinkError(f"{url}: expected a server of `halfwink live serve`")
    return found


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
