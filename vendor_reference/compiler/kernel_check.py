"""Builds an executable's programs once, at compile time, so that a kernel's errors show where it is compiled.

The build runs in a child process, `python -m vendor_reference.device.check FOLDER`: a kernel can crash or hang
the OpenCL compiler. FOLDER has

    executable     the byte code module
    assets.json    {asset name: file name in FOLDER}, for all assets and companions that programs name
    0, 1, ...      those files

and the child prints one line of JSON for each program, in order, as soon as it has built it:

    {"kernels": {name: number of arguments}, "log": "what the compiler said"}    a build that succeeded
    {"error": "the compiler's message and log"}                                  one that failed

What was built before with the same OpenCL is remembered in the cache folder, and not built again: a second
`apply_plugin` starts no child and loads no OpenCL.
"""
