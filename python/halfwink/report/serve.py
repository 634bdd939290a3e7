"""The report over HTTP on this machine alone, as browsers of another machine reach it through a
tunnel."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from halfwink.results.results import STUDY_FILE

#: The address that is listened at.
LOOPBACK = "127.0.0.1"
#: Names of this machine that a browser may ask for. Another one is a page of a stranger whose name
#: was made to lead here (DNS rebinding).
HOSTS = ("localhost", LOOPBACK)
#: The page of the report.
PAGE = "report.html"
#: Media types of the report's files, by ending.
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".toml": "text/plain; charset=utf-8",
    ".parquet": "application/vnd.apache.parquet",
}


def files_of(folder: Path) -> dict[str, Path]:
    """Returns the files of a report by their names: the page, the study and the tables."""
    names = (PAGE, STUDY_FILE, *(path.name for path in folder.glob("*.parquet")))
    return {name: folder / name for name in names if (folder / name).is_file()}


def serve(folder: Path, told: Callable[[str], None]) -> None:
    """Serves a report at a free port of the loopback interface until Ctrl-C.

    Args:
        folder: folder of a finished run, with its report.
        told: receives the address, once it is listened at.

    Raises:
        OSError: there is no port.
    """
    files = files_of(folder)

    class Handler(BaseHTTPRequestHandler):
        """Answers GET and HEAD of these files."""

        server_version = "halfwink"
        sys_version = ""
        # A client that sends nothing holds its thread no longer than that, in seconds.
        timeout = 30

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, *, with_body: bool) -> None:
            if not is_own(self.headers.get_all("Host", [])):
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
                return
            name = unquote(urlsplit(self.path).path).removeprefix("/") or PAGE
            path = files.get(name)
            try:
                content = None if path is None else path.read_bytes()
            except OSError:
                content = None
            if path is None or content is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", TYPES[path.suffix])
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Content-Type-Options", "nosniff")
            # The report is drawn again while it is served.
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if with_body:
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not printed."""

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        server.daemon_threads = True
        told(f"http://{LOOPBACK}:{server.server_port}/")
        server.serve_forever()


def is_own(hosts: list[str]) -> bool:
    """Returns whether a request has one ``Host`` header, and that names this machine. A tunnel may
    have another port."""
    return len(hosts) == 1 and re.sub(r":\d+$", "", hosts[0].lower()) in HOSTS
