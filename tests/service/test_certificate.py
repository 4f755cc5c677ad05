"""A certificate that is renewed file by file: what is served stays good at every step."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from agent.service.expiry import validity
from agent.service.timers import Certificate
from tests.lacking import program
from tests.service.test_process import make_certificate

if TYPE_CHECKING:
    from pathlib import Path


def serial_served(context: ssl.SSLContext) -> int:
    """Shakes hands over a real connection; the serial number of what the server showed."""
    served, asked = socket.socketpair()
    served.settimeout(60)
    asked.settimeout(60)

    def serve() -> None:
        try:
            with context.wrap_socket(served, server_side=True) as secured:
                secured.recv(1)
        except OSError:
            served.close()  # the one that asks sees it

    thread = threading.Thread(target=serve)
    thread.start()
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    try:
        with client.wrap_socket(asked) as secured:
            shown = secured.getpeercert(binary_form=True)
            secured.sendall(b"x")
    finally:
        asked.close()
        thread.join(60)
    assert shown is not None
    return serial_of(ssl.DER_cert_to_PEM_cert(shown))


def serial_of(pem: str) -> int:
    done = subprocess.run(
        [program("openssl"), "x509", "-noout", "-serial"],
        input=pem,
        capture_output=True,
        check=True,
        text=True,
    )
    return int(done.stdout.strip().removeprefix("serial="), 16)


@pytest.mark.parametrize("first", ["tls.crt", "tls.key"])
def test_half_a_renewal_leaves_the_last_pair_in_force(tmp_path: Path, first: str) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        make_certificate(tmp_path / name, "localhost")
    for path in (tmp_path / "old").iterdir():
        shutil.copy(path, tmp_path / path.name)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    renewed = Certificate(context, certificate, key)
    old, new = (serial_of((tmp_path / name / "tls.crt").read_text()) for name in ("old", "new"))
    assert serial_served(context) == old
    shutil.copy(tmp_path / "new" / first, tmp_path / first)
    for _ in range(2):  # it is tried again and again, and never taken
        with pytest.raises(ssl.SSLError):
            renewed.reload()
        assert serial_served(context) == old
    second = "tls.key" if first == "tls.crt" else "tls.crt"
    shutil.copy(tmp_path / "new" / second, tmp_path / second)
    assert renewed.reload()
    assert serial_served(context) == new
    assert not renewed.reload()


def test_a_renewed_key_with_a_passphrase_is_refused_and_asks_nobody(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    renewed = Certificate(context, certificate, key)
    old = serial_of(certificate.read_text())
    locked = tmp_path / "locked.key"
    subprocess.run(
        [
            *(program("openssl"), "rsa", "-aes256", "-passout", "pass:hunter2"),
            *("-in", str(key), "-out", str(locked)),
        ],
        check=True,
        capture_output=True,
    )
    shutil.copy(locked, key)
    with pytest.raises(OSError, match="passphrase"):
        renewed.reload()
    assert serial_served(context) == old


@pytest.mark.parametrize("days", [30, -1], ids=["good for a month", "ended yesterday"])
@pytest.mark.parametrize("chained", [True, False], ids=["by an issuer", "by itself"])
def test_when_it_begins_and_ends_is_what_openssl_reads(
    tmp_path: Path, days: int, chained: bool
) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    _openssl(
        tmp_path, "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout tls.key -out tls.csr"
    )
    signed = "-signkey tls.key"
    if chained:
        _openssl(
            tmp_path, "req -x509 -newkey rsa:2048 -nodes -subj /CN=ca -keyout ca.key -out ca.crt"
        )
        signed = "-CA ca.crt -CAkey ca.key -CAcreateserial"
    _openssl(tmp_path, f"x509 -req -in tls.csr {signed} -days {days} -out tls.crt")
    said = _openssl(tmp_path, "x509 -noout -dates -in tls.crt").split("\n")
    dates = dict(line.split("=") for line in said if line)
    if chained:  # as it is served: with its issuer behind it
        certificate.write_text(certificate.read_text() + (tmp_path / "ca.crt").read_text())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    found = validity(context, certificate)
    assert found is not None
    assert found.begins_time == ssl.cert_time_to_seconds(dates["notBefore"])
    assert found.ends_time == ssl.cert_time_to_seconds(dates["notAfter"])
    assert Certificate(context, certificate, key).validity() == found


def test_when_it_ends_is_not_known_where_the_file_is_another_or_gone(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    (tmp_path / "other").mkdir()
    other, _ = make_certificate(tmp_path / "other", "localhost")
    assert validity(context, other) is None
    certificate.unlink()
    assert validity(context, certificate) is None


def _openssl(folder: Path, arguments: str) -> str:
    done = subprocess.run(
        [program("openssl"), *arguments.split()],
        cwd=folder,
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout
