"""`python -m litert.abi` prints the folder of the headers: what a C compiler takes with `-I`."""

from litert.abi.headers import INCLUDE_FOLDER

print(INCLUDE_FOLDER)
