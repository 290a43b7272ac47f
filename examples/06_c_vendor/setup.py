"""Builds a wheel for one platform and any Python version, because the wheel contains shared libraries."""

from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py


class BuildPackage(build_py):
    """Refuses to install the package without its libraries, which no program could use."""

    def run(self) -> None:
        if not any(Path(__file__).with_name("cobalt_npu").glob("*.so")):
            raise SystemExit("cobalt_npu has no libraries yet: run make, then pip again")
        super().run()


class PlatformWheel(bdist_wheel):
    """A wheel whose machine code does not use Python's C interface."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the tags for Python, its ABI and the platform; setuptools chooses the platform's tag."""
        return "py3", "none", super().get_tag()[2]


setup(cmdclass={"build_py": BuildPackage, "bdist_wheel": PlatformWheel})
