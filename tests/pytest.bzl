"""A file of tests as a py_test."""

def pytest_test(name, src, data, deps):
    """Runs pytest on one file.

    Args:
      name: of the target.
      src: the file of tests.
      data: what the tests read: fixtures, golden files, the project's own files.
      deps: the libraries that they test.
    """
    native.py_test(
        name = name,
        srcs = [src, "run_pytest.py"],
        size = "small",
        main = "run_pytest.py",
        args = ["$(location %s)" % src],
        data = data,
        deps = deps,
        legacy_create_init = 0,
    )
