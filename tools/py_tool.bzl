"""A command of this folder as a py_binary."""

_MAIN = """
import os

from tools.{name} import run

os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))  # paths on the command line are the user's
run()
"""

def py_tool(name, deps):
    """Makes //tools:<name>, which calls `run` of <name>.py.

    The main file is another one: a file that is run itself has no package, and its relative imports fail.

    Args:
      name: of the module in this folder.
      deps: what it needs.
    """
    main = name + "_main.py"
    native.genrule(
        name = name + "_main",
        outs = [main],
        cmd = "cat > $@ <<'END'" + _MAIN.format(name = name) + "END",
    )
    native.py_binary(
        name = name,
        srcs = [main],
        main = main,
        deps = deps,
        legacy_create_init = 0,  # an __init__.py in @bazel_tools//tools would be found before ours
        visibility = ["//visibility:public"],
    )
