"""`python -m litert.abi` prints the directory of the headers, for the option `-I` of a C compiler."""

from litert.abi.headers import INCLUDE_FOLDER

print(INCLUDE_FOLDER)
