"""Says that a wheel of this package is for one platform, since it has shared libraries."""

from setuptools import Distribution, setup


class BinaryDistribution(Distribution):
    """A package with machine code."""

    def has_ext_modules(self) -> bool:
        return True


setup(distclass=BinaryDistribution)
