"""What the steering proxy makes of requests that are not as RFC 9110 and 9112 demand: for each,
what the client gets and what reaches the server behind it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from steer_bed import Recorder, balanced, describe, get, status, talk, wait_until

from halfwink.live.steer import LiveSteer

Bed = tuple[LiveSteer, Recorder, str]

H = b"Host: h\r\n"
END = b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Generator[Bed]:
    recorder, other = Recorder(), Recorder()
    limits = "header_timeout_ms = 1500\nbody_timeout_ms = 1500\nbody_bytes = 100000\n"
    path = describe(
        tmp_path_factory.mktemp("steer"),
        recorder.address,
        other.address,
        top='policy = "always-small"',
        limits=limits + "target_bytes = 2000\nheader_bytes = 8000",
    )
    with LiveSteer(path) as steer:
        yield steer, recorder, steer.address
        wait_until(lambda: steer.report()["connections"] == 0)
        balanced(steer.report())
    recorder.close()
    other.close()


#: Name, what is sent, the status, what reaches the server (none: nothing may).
CORPUS: list[tuple[str, bytes, int, bytes | None]] = [
    (
        "length and coding",
        b"POST / HTTP/1.1\r\n"
        + H
        + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        None,
    ),
    (
        "coding and length",
        b"POST / HTTP/1.1\r\n"
        + H
        + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        400,
        None,
    ),
    (
        "two lengths",
        b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        400,
        None,
    ),
    (
        "two equal lengths",
        b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
        400,
        None,
    ),
    ("a list of lengths", b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 1, 1\r\n\r\na", 400, None),
    ("a signed length", b"POST / HTTP/1.1\r\n" + H + b"Content-Length: +1\r\n\r\na", 400, None),
    ("a negative length", b"POST / HTTP/1.1\r\n" + H + b"Content-Length: -1\r\n\r\na", 400, None),
    (
        "a long length",
        b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 99999999999999999999\r\n\r\na",
        400,
        None,
    ),
    ("an empty length", b"POST / HTTP/1.1\r\n" + H + b"Content-Length:\r\n\r\na", 400, None),
    ("identity", b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: identity\r\n\r\n", 400, None),
    (
        "an unknown coding",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        501,
        None,
    ),
    (
        "chunked, not last",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked, gzip\r\n\r\n",
        400,
        None,
    ),
    (
        "chunked twice",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked, chunked\r\n\r\n",
        400,
        None,
    ),
    (
        "two codings",
        b"POST / HTTP/1.1\r\n"
        + H
        + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
        400,
        None,
    ),
    (
        "a hidden coding",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: \x0bchunked\r\n\r\n",
        400,
        None,
    ),
    (
        "a coding in quotes",
        b"POST / HTTP/1.1\r\n" + H + b'Transfer-Encoding: "chunked"\r\n\r\n',
        400,
        None,
    ),
    (
        "an empty coding",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: \r\nContent-Length: 1\r\n\r\na",
        400,
        None,
    ),
    (
        "coding in 1.0",
        b"POST / HTTP/1.0\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        None,
    ),
    ("folded line", b"GET / HTTP/1.1\r\n" + H + b"A: b\r\n c\r\n\r\n", 400, None),
    ("folded first line", b"GET / HTTP/1.1\r\n A: b\r\n" + H + b"\r\n", 400, None),
    ("blank before colon", b"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400, None),
    (
        "coding, blank before colon",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        400,
        None,
    ),
    ("no name", b"GET / HTTP/1.1\r\n" + H + b": x\r\n\r\n", 400, None),
    ("no colon", b"GET / HTTP/1.1\r\n" + H + b"abc\r\n\r\n", 400, None),
    ("lone line feeds", b"GET / HTTP/1.1\nHost: h\n\n", 400, None),
    ("one lone line feed", b"GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n", 400, None),
    ("lone carriage return", b"GET / HTTP/1.1\r\n" + H + b"A: b\rC: d\r\n\r\n", 400, None),
    ("NUL in a value", b"GET / HTTP/1.1\r\n" + H + b"A: b\0c\r\n\r\n", 400, None),
    ("NUL in a name", b"GET / HTTP/1.1\r\n" + H + b"A\0: b\r\n\r\n", 400, None),
    ("NUL in the target", b"GET /\0 HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("eight bits in the target", b"GET /\xff HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("fragment", b"GET /a#b HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("blank in the target", b"GET /a b HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("two blanks", b"GET  / HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("tab for blank", b"GET\t/ HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("no host", b"GET / HTTP/1.1\r\n\r\n", 400, None),
    ("two hosts", b"GET / HTTP/1.1\r\n" + H + b"Host: i\r\n\r\n", 400, None),
    ("two equal hosts", b"GET / HTTP/1.1\r\n" + H + H + b"\r\n", 400, None),
    ("no host at all", b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, None),
    ("a path for host", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, None),
    ("an open bracket for host", b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, None),
    ("no port of this world", b"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", 400, None),
    ("a word for port", b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400, None),
    ("a user for host", b"GET http://u@h/ HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("another scheme", b"GET ftp://h/ HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("no path", b"GET a HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("star for GET", b"GET * HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("CONNECT", b"CONNECT h:1 HTTP/1.1\r\n" + H + b"\r\n", 501, None),
    ("TRACE", b"TRACE / HTTP/1.1\r\n" + H + b"\r\n", 501, None),
    ("version 1.2", b"GET / HTTP/1.2\r\n" + H + b"\r\n", 505, None),
    ("version 2.0", b"GET / HTTP/2.0\r\n" + H + b"\r\n", 505, None),
    ("version 0.9", b"GET /\r\n", 400, None),
    ("small letters", b"GET / http/1.1\r\n" + H + b"\r\n", 400, None),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, None),
    ("a long target", b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\n" + H + b"\r\n", 414, None),
    ("a target without end", b"GET /" + b"a" * 9000, 414, None),
    ("a long field", b"GET / HTTP/1.1\r\n" + H + b"A: " + b"a" * 9000 + b"\r\n\r\n", 431, None),
    ("many fields", b"GET / HTTP/1.1\r\n" + H + b"A: b\r\n" * 200 + b"\r\n", 431, None),
    ("a long body", b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 100001\r\n\r\n", 413, None),
    (
        "a long chunked body",
        b"POST / HTTP/1.1\r\n"
        + H
        + b"Transfer-Encoding: chunked\r\n\r\n186a1\r\n"
        + b"a" * 100001
        + b"\r\n0\r\n\r\n",
        413,
        None,
    ),
    ("an expectation", b"GET / HTTP/1.1\r\n" + H + b"Expect: 200-ok\r\n\r\n", 417, None),
    (
        "no digit",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n\r\n\r\n",
        400,
        None,
    ),
    (
        "a signed chunk",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
        400,
        None,
    ),
    (
        "a chunk in 0x",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        400,
        None,
    ),
    (
        "a chunk too short",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        400,
        None,
    ),
    (
        "chunk, line feed",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
        400,
        None,
    ),
    (
        "extension, line feed",
        b"POST / HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\na\r\n0\r\n\r\n",
        400,
        None,
    ),
    (
        "a chunk of 2^64",
        b"POST / HTTP/1.1\r\n"
        + H
        + b"Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\na\r\n0\r\n\r\n",
        400,
        None,
    ),
    # What is odd, and right.
    ("an empty line before", b"\r\nGET /e HTTP/1.1\r\n" + H + END, 200, b"GET /e HTTP/1.1\r\n" + H),
    (
        "absolute form",
        b"GET http://other:8/p?q HTTP/1.1\r\n" + H + END,
        200,
        b"GET /p?q HTTP/1.1\r\nHost: other:8\r\n",
    ),
    (
        "absolute form, no path",
        b"GET http://other HTTP/1.1\r\n" + H + END,
        200,
        b"GET / HTTP/1.1\r\nHost: other\r\n",
    ),
    (
        "absolute form, no path, OPTIONS",
        b"OPTIONS http://other HTTP/1.1\r\n" + H + END,
        200,
        b"OPTIONS * HTTP/1.1\r\nHost: other\r\n",
    ),
    ("IPv6 for host", b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n" + END, 200, b"GET / HTTP/1.1\r\n"),
    ("star", b"OPTIONS * HTTP/1.1\r\n" + H + END, 200, b"OPTIONS * HTTP/1.1\r\n" + H),
    ("no host in 1.0", b"GET / HTTP/1.0\r\n\r\n", 200, b"GET / HTTP/1.1\r\nHost: \r\n"),
    (
        "extensions and trailers",
        b"POST /t HTTP/1.1\r\n"
        + H
        + b"Transfer-Encoding: Chunked\r\nTrailer: X\r\n"
        + END
        + b'3;a="b"\r\nabc\r\n0\r\nX: y\r\n\r\n',
        200,
        b"\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ),
]


@pytest.mark.parametrize(
    ("sent", "wanted", "reached"), [c[1:] for c in CORPUS], ids=[c[0] for c in CORPUS]
)
def test_corpus(bed: Bed, sent: bytes, wanted: int, reached: bytes | None):
    steer, recorder, address = bed
    recorder.seen.clear()
    before = steer.report()
    smuggled = b"" if reached or b"\n" not in sent else b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
    answer = talk(address, sent + smuggled)
    assert status(answer) == wanted, answer
    # One request, one answer, and never a second request out of its body.
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    if reached is None:
        assert recorder.seen == []
        refused = before["requests"]["refused"] + 1
        # The books are written after the peer has its answer.
        wait_until(lambda: steer.report()["requests"]["refused"] == refused)
    else:
        assert len(recorder.seen) == 1
        assert reached in recorder.seen[0], recorder.seen
    key = f"{wanted // 100}xx"
    wait_until(lambda: steer.report()["statuses"][key] == before["statuses"][key] + 1)


def test_what_belongs_to_one_connection_stays_there(bed: Bed):
    _, recorder, address = bed
    recorder.seen.clear()
    fields = (
        "Connection: close, X-Secret, Host, Content-Length\r\nX-Secret: 1\r\nKeep-Alive: 5\r\n"
        "Proxy-Connection: x\r\nTE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n"
        "Proxy-Authorization: y\r\nX-Forwarded-For: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\n"
        "X-Forwarded-Proto: https\r\nVia: 1.0 other\r\nX-Mine: 2\r\n"
    )
    assert status(get(address, "/hop", fields)) == 200
    lines = recorder.seen[0].decode().split("\r\n")
    assert lines == [
        "GET /hop HTTP/1.1",
        "Host: h",
        "X-Mine: 2",
        "Via: 1.0 other, 1.1 halfwink",
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Proto: http",
        "X-Forwarded-Host: h",
        "",
        "",
    ]


def test_pipelined_requests_are_answered_in_order(bed: Bed):
    _, recorder, address = bed
    recorder.seen.clear()
    post = b"POST /2 HTTP/1.1\r\n" + H + b"Content-Length: 3\r\n\r\nabc"
    answer = talk(
        address, b"GET /1 HTTP/1.1\r\n" + H + b"\r\n" + post + b"HEAD /3 HTTP/1.1\r\n" + H + END
    )
    assert answer.count(b"HTTP/1.1 200") == 3
    assert answer.count(b"ok") == 2
    assert [seen.split(b" ")[1] for seen in recorder.seen] == [b"/1", b"/2", b"/3"]
    assert recorder.seen[1].endswith(b"\r\n\r\nabc")


def test_old_clients_keep_their_connection_if_they_ask(bed: Bed):
    _, _, address = bed
    one = b"GET / HTTP/1.0\r\n" + H
    assert b"Connection: close" in talk(address, one + b"\r\n")
    answer = talk(address, one + b"Connection: keep-alive\r\n\r\n", one + b"\r\n")
    assert answer.count(b"HTTP/1.1 200") == 2
    assert b"Connection: keep-alive" in answer


def test_a_client_that_waits_is_told_to_go_on(bed: Bed):
    _, recorder, address = bed
    recorder.seen.clear()
    head = b"POST / HTTP/1.1\r\n" + H + b"Expect: 100-continue\r\nContent-Length: 3\r\n" + END
    answer = talk(address, head, b"abc", pause=0.05)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    assert b"xpect" not in recorder.seen[0]


def test_slow_clients_hold_nothing(bed: Bed):
    steer, recorder, address = bed
    recorder.seen.clear()
    before = steer.report()["requests"]["slow"]
    assert status(talk(address, b"GET / HT", b"TP/1.1\r\n")) == 408
    head = b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 30\r\n\r\n"
    assert status(talk(address, head, b"a", pause=0.05)) == 408
    assert recorder.seen == []
    wait_until(lambda: steer.report()["requests"]["slow"] == before + 2)
    # Nothing at all is no request.
    assert talk(address, b"", timeout=0.2) == b""


GARBAGE = [
    b"SSH-2.0-OpenSSH\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Le",
    b"HTTP/1.1 20 OK\r\n\r\n",
    b"",
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_is_a_bad_gateway(bed: Bed, garbage: bytes):
    steer, recorder, address = bed
    before = steer.report()["requests"]["bad_gateway"]
    recorder.answer = garbage
    try:
        assert (
            status(talk(address, b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 0\r\n" + END))
            == 502
        )
    finally:
        recorder.answer = None
    wait_until(lambda: steer.report()["requests"]["bad_gateway"] == before + 1)


def test_bodies_of_every_kind_come_through(bed: Bed):
    _, recorder, address = bed
    for answer, wanted in (
        (b"HTTP/1.1 200 OK\r\n\r\nuntil close", b"\r\n\r\nb\r\nuntil close\r\n0\r\n\r\n"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            b"2\r\nab\r\n0\r\n\r\n",
        ),
        (
            b"HTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
            b"204 No Content\r\nX: y",
        ),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabcZZZ", b"\r\n\r\nabc"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300000, b"x" * 300000),
    ):
        recorder.answer = answer
        found = get(address)
        assert wanted in found, found[:200]
        assert b"ZZZ" not in found
    recorder.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"
    assert get(address).endswith(b"short")
    recorder.answer = None
    body = b"y" * 90000
    recorder.seen.clear()
    head = b"POST / HTTP/1.1\r\n" + H + b"Content-Length: 90000\r\n" + END
    assert status(talk(address, head, body)) == 200
    assert recorder.seen[0].endswith(b"\r\n\r\n" + body)


def test_wrong_descriptions_are_one_line(tmp_path: Path):
    from halfwink.errors import HalfwinkError, RunError

    path = describe(tmp_path, "127.0.0.1:1", "127.0.0.1:2", top='policy = "nap"')
    with pytest.raises(HalfwinkError, match="nap"):
        LiveSteer(path)
    path = describe(tmp_path, "127.0.0.1:1", "127.0.0.1:1")
    with pytest.raises(HalfwinkError, match=r"steer.toml:9: big.address: found 127.0.0.1:1 twice"):
        LiveSteer(path)
    path = describe(tmp_path, "127.0.0.1:1", "127.0.0.1:2")
    path.write_text(path.read_text().replace("127.0.0.1:0", "203.0.113.1:80"))
    with pytest.raises(RunError, match=r"listen 203.0.113.1:80: "):
        LiveSteer(path)
