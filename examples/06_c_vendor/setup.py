"""Marks the wheel as built for one platform and any Python, because it has shared libraries."""

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
    """A wheel with machine code that does not touch Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        """The platform's name is setuptools' own."""
        return "py3", "none", super().get_tag()[2]


setup(cmdclass={"build_py": BuildPackage, "bdist_wheel": PlatformWheel})
