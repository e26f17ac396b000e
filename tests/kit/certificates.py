"""Certificates for servers on the loopback interface, made by the openssl program as the tests run."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from attrs import frozen


@frozen
class Certified:
    """An authority of our own (``authority``, a file), and a server's certificate by it for one name."""

    authority: Path
    chain: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """What a server with that certificate shows."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.chain, self.key)
        return context


def certify(place: Path, *names: str) -> Certified:
    """Make both in the folder ``place``; ``names`` are as ``DNS:site.test`` or ``IP:127.0.0.1``.

    Skips the test where there is no openssl.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("making a certificate needs the openssl program")
    (place / "names").write_text(f"subjectAltName={','.join(names)}\n")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for line in (
        ["req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Authority", "-days", "2"],
        ["req", *key, "-keyout", "site.key", "-out", "site.csr", "-subj", "/CN=site.test"],
        [
            "x509", "-req", "-in", "site.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", "site.pem", "-days", "2", "-extfile", "names",
        ],
    ):  # fmt: skip
        subprocess.run([openssl, *line], cwd=place, check=True, capture_output=True)
    return Certified(place / "ca.pem", place / "site.pem", place / "site.key")
