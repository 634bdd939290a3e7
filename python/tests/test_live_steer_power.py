"""Drivers of the steering proxy's power layer, beside libvirt's test driver, ipmi_sim, a server of
Redfish over TLS, and a script with Podman's words."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import need, wait_until
from steer_bed import Recorder, certificate, describe
from test_daemons import binary

from halfwink.live.steer import LiveSteer


@pytest.fixture
def pair() -> Generator[tuple[Recorder, Recorder]]:
    with Recorder() as small, Recorder() as big:
        yield small, big


def described(folder: Path, pair: tuple[Recorder, Recorder], power: str, policy: str = "") -> Path:
    """A description whose big machine has this way of sleep, and is asked about it often."""
    top = f'policy = "{policy}"' if policy else ""
    more = f"power_query_ms = 20\npower = {{ {power} }}"
    return describe(folder, *(r.address for r in pair), machine="", top=top, big_more=more)


def checked(path: Path) -> str:
    """What `--check` says of a description; nothing if it is right."""
    words = [binary("halfwink-steer"), "--config", str(path), "--check", "-q"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (not done.stderr), done
    return done.stderr


class Domains:
    """A daemon of libvirt whose test driver has a domain.

    The state of ``test:///default`` lives in one process, and there as long as a client is
    connected: so it is a daemon's, and one client stays.
    """

    def __init__(self, folder: Path) -> None:
        for name in ("home", "run"):
            (folder / name).mkdir()
        words = [need("libvirtd"), "-f", str(folder / "home/none.conf"), "-t", "30"]
        (folder / "home/none.conf").touch()
        if os.geteuid() == 0:
            # A session's daemon: that of the system wants users and a hypervisor.
            for path in (folder, folder / "home", folder / "run"):
                shutil.chown(path, 65534, 65534)
            words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
        names = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
        own = dict.fromkeys(names, str(folder / "home")) | {"XDG_RUNTIME_DIR": str(folder / "run")}
        none = subprocess.DEVNULL
        env = os.environ | own
        self._daemon = subprocess.Popen(words, env=env, cwd=folder, stdout=none, stderr=none)
        path = folder / "run/libvirt/libvirt-sock"
        assert wait_until(path.exists), "no socket of libvirtd"
        self.uri = f"test+unix:///default?socket={path}"
        words = [need("virsh"), "-q", "-c", self.uri]
        self._client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=none, stderr=none)
        assert wait_until(lambda: self.state() == "running")

    def virsh(self, verb: str) -> str:
        words = ["virsh", "-q", "-c", self.uri, verb, "test"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def state(self) -> str:
        return self.virsh("domstate")

    def close(self) -> None:
        for process in (self._client, self._daemon):
            process.kill()
            process.wait()
        assert self._client.stdin
        self._client.stdin.close()


@pytest.fixture
def domains() -> Generator[Domains]:
    need("virsh", "libvirtd", "setpriv")
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        found = Domains(Path(folder))
        try:
            yield found
        finally:
            found.close()


def overridden(steer: LiveSteer) -> int:
    return steer.report()["machines"]["big"]["overridden"]


WAYS = [("suspend", "paused"), ("managed-save", "shut off"), ("shutdown", "shut off")]


@pytest.mark.parametrize(("way", "asleep"), WAYS)
def test_a_domain_sleeps_and_wakes(
    tmp_path: Path, pair: tuple[Recorder, Recorder], domains: Domains, way: str, asleep: str
):
    power = f'kind = "libvirt", domain = "test", uri = "{domains.uri}", way = "{way}"'
    path = described(tmp_path, pair, power)
    assert checked(path) == ""
    with LiveSteer(path) as steer:
        assert wait_until(lambda: steer.report()["machines"]["big"]["state"] == "asleep")
        assert domains.state() == asleep
    # Machines are woken at the end.
    assert domains.state() == "running"


def test_what_an_operator_changes_is_told_and_not_fought_over(
    tmp_path: Path,
    pair: tuple[Recorder, Recorder],
    domains: Domains,
    capfd: pytest.CaptureFixture[str],
):
    power = f'kind = "libvirt", domain = "test", uri = "{domains.uri}"'
    with LiveSteer(described(tmp_path, pair, power)) as steer:
        assert wait_until(lambda: steer.report()["machines"]["big"]["state"] == "asleep")
        domains.virsh("resume")
        assert wait_until(lambda: overridden(steer) == 1)
        on = sum(steer.report()["machines"]["big"]["residency"]["on_s"])
        booked = lambda: sum(steer.report()["machines"]["big"]["residency"]["on_s"])  # noqa: E731
        assert wait_until(lambda: booked() > on), "it is not booked as on"
        assert domains.state() == "running"
        text = steer.metrics()
        assert 'halfwink_machine_overridden_total{machine="big"} 1' in text
    with LiveSteer(described(tmp_path, pair, power, "always-on")) as steer:
        assert steer.report()["machines"]["big"]["state"] == "on"
        domains.virsh("destroy")
        assert wait_until(lambda: overridden(steer) == 1)
        assert steer.report()["machines"]["big"]["losses"] >= 1
    assert domains.state() == "shut off", "it was switched on against the operator"
    said = capfd.readouterr().err
    assert "big machine: found running, changed by another: its sleep has ended" in said
    assert "big machine: found shut off, changed by another: it is lost until" in said


SIMULATED = """name "sim"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{folder}/chassis"
  user 2 true "steer" "secret" admin 10 none md2 md5 straight
"""
BMC = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02
mc_enable 0x20
"""
#: What ipmi_sim asks for the state of the chassis, and tells of its changes.
CHASSIS = """#!/bin/sh
if [ "$1" = get ]; then
    echo "power:$(cat {folder}/power)"
elif [ "$2" = power ]; then
    echo "$3" > {folder}/power
elif [ "$2" = shutdown ]; then
    echo 0 > {folder}/power
fi
"""


@pytest.fixture
def bmc(tmp_path: Path) -> Generator[int]:
    """The UDP port of a simulated BMC whose machine is on."""
    need("ipmi_sim", "ipmitool")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "state").mkdir()
    (tmp_path / "lan.conf").write_text(SIMULATED.format(port=port, folder=tmp_path))
    (tmp_path / "sim.emu").write_text(BMC)
    (tmp_path / "power").write_text("1")
    (tmp_path / "chassis").write_text(CHASSIS.format(folder=tmp_path))
    (tmp_path / "chassis").chmod(0o755)
    words = ["ipmi_sim", "-c", "lan.conf", "-f", "sim.emu", "-s", "state", "-n"]
    none = subprocess.DEVNULL
    process = subprocess.Popen(words, cwd=tmp_path, stdin=none, stdout=none, stderr=none)
    yield port
    process.kill()
    process.wait()


def test_a_machine_sleeps_and_wakes_by_ipmi(
    tmp_path: Path, pair: tuple[Recorder, Recorder], bmc: int
):
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "password").chmod(0o600)
    power = (
        f'kind = "ipmi", bmc = "127.0.0.1", port = {bmc}, user = "steer", '
        'password_file = "password", cipher = 3'
    )
    path = described(tmp_path, pair, power)
    assert checked(path) == ""
    with LiveSteer(path) as steer:
        assert wait_until(lambda: steer.report()["machines"]["big"]["state"] == "asleep")
        assert (tmp_path / "power").read_text().strip() == "0"
    assert (tmp_path / "power").read_text().strip() == "1"
    (tmp_path / "password").write_text("wrong\n")
    assert "big.power: ipmitool: exit status: 1: Error: Unable to establish" in checked(path)


class Redfish(BaseHTTPRequestHandler):
    """A system of Redfish that takes a while to go down."""

    power = "On"
    resets: list[str] = []  # noqa: RUF012

    def _answer(self, code: int, body: object = None) -> None:
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        if self.headers["X-Auth-Token"] != "token":
            self._answer(401)
            return
        shown = Redfish.power
        if shown.startswith("Powering"):
            Redfish.power = "Off" if shown == "PoweringOff" else "On"
        action = {
            "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
            "ResetType@Redfish.AllowableValues": ["On", "GracefulShutdown"],
        }
        self._answer(200, {"PowerState": shown, "Actions": {"#ComputerSystem.Reset": action}})

    def do_POST(self) -> None:
        kind = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["ResetType"]
        Redfish.resets.append(kind)
        Redfish.power = "PoweringOn" if kind == "On" else "PoweringOff"
        self._answer(204)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def redfish(tmp_path: Path) -> Generator[str]:
    """The address of a server of Redfish over TLS, whose certificate is for its name."""
    certificate(tmp_path, "bmc.example")
    Redfish.power, Redfish.resets = "On", []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Redfish)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield "{}:{}".format(*server.server_address[:2])
    server.shutdown()
    server.server_close()


def test_a_bmc_of_redfish_is_trusted_by_its_certificate_alone(
    tmp_path: Path, pair: tuple[Recorder, Recorder], redfish: str
):
    der = ssl.PEM_cert_to_DER_cert((tmp_path / "cert.pem").read_text())
    own = hashlib.sha256(der).hexdigest()
    (tmp_path / "token").write_text("token")
    (tmp_path / "token").chmod(0o600)

    def power(trust: str) -> str:
        at = f'bmc = {{ address = "{redfish}", {trust} }}'
        return f'kind = "redfish", {at}, system = "1", token_file = "token"'

    path = described(tmp_path, pair, power(f'fingerprint = "{own}"'))
    assert checked(path) == ""
    with LiveSteer(path) as steer:
        assert wait_until(lambda: steer.report()["machines"]["big"]["state"] == "asleep")
        assert Redfish.power == "Off"
    assert (Redfish.power, Redfish.resets) == ("On", ["GracefulShutdown", "On"])
    for trust, said in [
        (f'fingerprint = "{"0" * 64}"', f"found a certificate of fingerprint {own}"),
        ('ca_file = "cert.pem"', "certificate"),
        ('ca_file = "none.pem"', "none.pem"),
        ("plain = true", ""),
    ]:
        error = checked(described(tmp_path, pair, power(trust)))
        assert "big.power: " in error
        assert said in error
    (tmp_path / "token").write_text("expired")
    path = described(tmp_path, pair, power(f'fingerprint = "{own}"'))
    assert "status 401" in checked(path)


#: Podman's words for states and errors, as version 4.3.1 prints them.
PODMAN = """#!/bin/sh
state={folder}/state.txt
case "$1 $2" in
"container inspect") cat $state ;;
"container pause") echo paused > $state ;;
"container unpause") echo running > $state ;;
*) echo "Error: unrecognized command" >&2; exit 125 ;;
esac
"""


def test_a_container_is_paused_and_continued(
    tmp_path: Path, pair: tuple[Recorder, Recorder], monkeypatch: pytest.MonkeyPatch
):
    path = described(tmp_path, pair, 'kind = "container", name = "web"')
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    monkeypatch.setenv("PATH", str(bin_folder))
    assert "big.power: found podman, expected a program that can be run" in checked(path)
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    (bin_folder / "podman").write_text(PODMAN.format(folder=tmp_path))
    (bin_folder / "podman").chmod(0o755)
    (tmp_path / "state.txt").write_text("running\n")
    assert checked(path) == ""
    with LiveSteer(path) as steer:
        assert wait_until(lambda: steer.report()["machines"]["big"]["state"] == "asleep")
        assert (tmp_path / "state.txt").read_text() == "paused\n"
    assert (tmp_path / "state.txt").read_text() == "running\n"


def test_what_does_not_answer_is_found_by_check(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as closed:
        address = "{}:{}".format(*closed.getsockname()[:2])
    api = f'kind = "kubernetes", api = {{ address = "{address}", plain = true }}'
    power = f'{api}, deployment = "web", token_file = "token"'
    path = described(tmp_path, pair, power)
    assert f"big.power: {tmp_path}/token: No such file" in checked(path)
    (tmp_path / "token").write_text("\n")
    assert "token: expected a secret in the first line" in checked(path)
    (tmp_path / "token").write_text("abc")
    assert f"big.power: {address}: Connection refused" in checked(path)
