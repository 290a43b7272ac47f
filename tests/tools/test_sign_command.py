"""Tests `litert-npu sign` and `verify`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from tests.tools.conftest import LitertNpu

Capture = pytest.CaptureFixture[str]


def write_keys(name: str, key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> None:
    """Writes `<name>.pem`, the encrypted `<name>-secret.pem`, and `<name>.pub`."""
    for path, encryption in (
        (f"{name}.pem", serialization.NoEncryption()),
        (f"{name}-secret.pem", serialization.BestAvailableEncryption(b"password")),
    ):
        data = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )
        Path(path).write_bytes(data)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    Path(f"{name}.pub").write_bytes(public)


@pytest.fixture(autouse=True)
def folder(in_folder: Path) -> Path:
    """A folder with a compiled file, keys of two owners, and a key of another type."""
    write_keys("mine", ed25519.Ed25519PrivateKey.generate())
    write_keys("other", ed25519.Ed25519PrivateKey.generate())
    write_keys("curve", ec.generate_private_key(ec.SECP256R1()))
    Path("model.tflite").write_bytes(bytes(range(256)) * 100)
    return in_folder


def test_a_file_is_what_its_signer_signed(litert_npu: LitertNpu, capsys: Capture) -> None:
    assert litert_npu("sign", "model.tflite", "--key=mine.pem") == 0
    assert capsys.readouterr().out == "Wrote model.tflite.sig\n"
    assert litert_npu("verify", "model.tflite", "--key=mine.pub") == 0
    assert "has a valid signature" in capsys.readouterr().out
    assert litert_npu("verify", "model.tflite", "--key=other.pub") == 1
    assert "does not match the signature and this key" in capsys.readouterr().out
    Path("model.tflite").write_bytes(b"another")
    assert litert_npu("verify", "model.tflite", "--key=mine.pub") == 1


def test_a_changed_signature_is_none(litert_npu: LitertNpu) -> None:
    assert litert_npu("sign", "model.tflite", "--key=mine.pem", "--signature=sig") == 0
    data = Path("sig").read_bytes()
    Path("sig").write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert litert_npu("verify", "model.tflite", "--key=mine.pub", "--signature=sig") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sign", "model.tflite"), "the command line has no key"),
        (("sign", "model.tflite", "--key=none.pem"), "no such file"),
        (("sign", "model.tflite", "--key=mine.pub"), "no private Ed25519 key in PEM"),
        (("sign", "model.tflite", "--key=curve.pem"), "no private Ed25519 key in PEM"),
        (("sign", "model.tflite", "--key=mine-secret.pem"), "the key is encrypted"),
        (("sign", "none.tflite", "--key=mine.pem"), "no such file"),
        (
            ("sign", "model.tflite", "--key=mine.pem", "--signature=model.tflite"),
            "the output file is also an input file",
        ),
        (
            ("sign", "model.tflite", "--key=mine.pem", "--signature=mine.pem"),
            "the output file is also an input file",
        ),
        (("verify", "model.tflite", "--key=mine.pub"), "no such file (model.tflite.sig)"),
        (
            ("verify", "model.tflite", "--key=mine.pub", "--signature=mine.pub"),
            "the file is not a signature",
        ),
        (("verify", "model.tflite", "--key=curve.pub"), "no public Ed25519 key in PEM"),
        (("verify", "model.tflite", "--key=mine.pem"), "no public Ed25519 key in PEM"),
    ],
)
def test_what_cannot_be_signed_or_verified_is_an_error(
    litert_npu: LitertNpu, capsys: Capture, arguments: tuple[str, ...], message: str
) -> None:
    assert litert_npu(*arguments) == 2
    assert message in capsys.readouterr().err
    assert not Path("model.tflite.sig").exists()


def test_the_package_that_is_missing_is_named(
    litert_npu: LitertNpu, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    for command in ("sign", "verify"):
        assert litert_npu(command, "model.tflite", "--key=mine.pem") == 2
        assert "pip install 'litert-npu[sign]'" in capsys.readouterr().err


def test_openssl_verifies_it_too(litert_npu: LitertNpu) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    assert litert_npu("sign", "model.tflite", "--key=mine.pem") == 0
    digest = hashlib.sha256(Path("model.tflite").read_bytes()).hexdigest()
    Path("message").write_text(f"litert-npu signature 1\nsha256 {digest}\n")
    verify = [
        "openssl",
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        "mine.pub",
        "-rawin",
        "-in",
        "message",
        "-sigfile",
    ]
    ran = subprocess.run([*verify, "model.tflite.sig"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


CUT_WHILE_READ = """
import os, sys
from litert_npu_tools import signature
os.truncate("large", 64 << 20)
hashed = signature.hashlib.sha256
class Cutting:
    def __init__(self):
        self.digest = hashed()
    def update(self, data):
        self.digest.update(data)
        os.truncate("large", 100)
signature.hashlib.sha256 = Cutting
signature.sign_file("large", "mine.pem", "large.sig")
"""


def test_a_file_that_is_cut_while_it_is_signed_is_an_error() -> None:
    Path("large").touch()
    done = subprocess.run([sys.executable, "-c", CUT_WHILE_READ], capture_output=True, text=True)
    assert done.returncode == 1 and not Path("large.sig").exists()
    assert "FILE_IO: the file became shorter while it was read (large)" in done.stderr
