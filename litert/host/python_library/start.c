/* Starts Python, or uses the interpreter that the program already has, and gets the vendor's functions from Python.
 *
 * Python is not linked: the library must load in a program without Python, with RTLD_LOCAL and RTLD_DEEPBIND. All
 * functions of Python are looked up. An interpreter that was started here is never ended, since the host may use the
 * vendor's objects until its last destructor. */
#define _GNU_SOURCE
#include "start.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "configuration.h"
#include "creation_guard.h"
#include "python_functions.h"
#include "say.h"

struct python_functions python;

/* For an interpreter that was started here: does what Python does at its end, except joining threads. */
static const char END[] =
    "import atexit, sys\n"
    "try:\n"
    "    atexit._run_exitfuncs()\n"
    "finally:\n"
    "    sys.stdout and sys.stdout.flush()\n"
    "    sys.stderr and sys.stderr.flush()\n";

static bool is_of_version(const char* version) {
  size_t length = strlen(PYTHON_VERSION);
  return !strncmp(version, PYTHON_VERSION, length) && version[length] == '.';
}

/* The path of a libpython that the program has loaded, with local or global symbols. */
static int find_libpython(struct dl_phdr_info* info, size_t size, void* found) {
  (void)size;
  const char* name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
  if (!name || strncmp(name, "/libpython3.", 12)) return 0;
  *(const char**)found = info->dlpi_name;
  return 1;
}

/* The library in which Python's functions are looked up: the program's own libpython, if it has one. */
static bool open_libpython(void** library) {
  *library = RTLD_DEFAULT;
  if (dlsym(RTLD_DEFAULT, "Py_IsInitialized")) return true;
  const char* path = NULL;
  dl_iterate_phdr(find_libpython, &path);
  if (!path) path = getenv("LITERT_NPU_LIBPYTHON");
  if (!path || !*path) path = LIBPYTHON;
  if (!*path) {
    SAY("this library was made with a Python %s that has no shared libpython, so that only Python programs can load "
        "the library. Set LITERT_NPU_LIBPYTHON to the libpython%s.so of another Python.",
        PYTHON_VERSION, PYTHON_VERSION);
    return false;
  }
  /* Extension modules, such as NumPy's, find Python's functions among the global symbols. */
  *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!*library)
    SAY("cannot load Python: %s. Set LITERT_NPU_LIBPYTHON to another libpython%s.so.", dlerror(), PYTHON_VERSION);
  return *library != NULL;
}

static bool find_functions(void) {
  void* library;
  if (!open_libpython(&library)) return false;
  const char* (*get_version)(void);
  *(void**)&get_version = dlsym(library, "Py_GetVersion");
  if (!get_version) {
    SAY("LITERT_NPU_LIBPYTHON is not a libpython: the file has no Py_GetVersion.");
    return false;
  }
  const char* version = get_version();
  if (!is_of_version(version)) {
    SAY("this library was made with Python %s, but the Python in this process is %.*s. Export the vendor with that "
        "Python, or load the library in a program without Python.", PYTHON_VERSION, (int)strcspn(version, " "), version);
    return false;
  }
#define FIND(result, name, arguments) \
  *(void**)&python.name = dlsym(library, #name); \
  if (!python.name) { \
    SAY("the libpython of this process has no %s", #name); \
    return false; \
  }
  PYTHON_FUNCTIONS(FIND)
#undef FIND
  return true;
}

static bool run(const char* text, PyObject* globals) {
  PyObject* code = python.Py_CompileString(text, "litert_npu", FILE_INPUT);
  PyObject* result = code ? python.PyEval_EvalCode(code, globals, globals) : NULL;
  if (code) python.Py_DecRef(code);
  if (!result) {
    python.PyErr_Clear();
    return false;
  }
  python.Py_DecRef(result);
  return true;
}

static PyObject* new_globals(void) {
  PyObject* globals = python.PyDict_New();
  if (globals) python.PyDict_SetItemString(globals, "__builtins__", python.PyEval_GetBuiltins());
  return globals;
}

/* Runs at the end of the program. A thread that runs Python code releases the GIL for it. */
static void end_interpreter(void) {
  int state = python.PyGILState_Ensure();
  PyObject* globals = new_globals();
  if (globals) {
    run(END, globals);
    python.Py_DecRef(globals);
  }
  python.PyGILState_Release(state);
}

static bool is_fine(PyStatus status) {
  if (!python.PyStatus_Exception(status)) return true;
  SAY("Python cannot be started: %s. Set LITERT_NPU_PYTHON to the interpreter that has the vendor's packages.",
      status.message ? status.message : "no reason given");
  return false;
}

/* The part of a version before the date of the build: `3.13.0`, perhaps followed by
 * ` experimental free-threading build` or the name of the packager. */
static size_t build_length(const char* version) {
  size_t length = strcspn(version, "(");
  while (length && version[length - 1] == ' ') length--;
  return length;
}

/* The interpreter that the user gives must have the library's Python version, so that its packages can be loaded, and
 * must be the same build as the libpython that is started: modules that are built into one may be files in another. */
static bool is_program_of_version(const char* program) {
  char said[160] = "";
  FILE* output = popen("exec \"$LITERT_NPU_PYTHON\" -ISc 'import sys; print(sys.version.split(\"(\")[0].strip())' 2>&1", "r");
  if (!output || !fgets(said, sizeof(said), output)) said[0] = '\0';
  if (output) pclose(output);
  said[strcspn(said, "\n")] = '\0';
  if (!is_of_version(said)) {
    SAY("LITERT_NPU_PYTHON is %s, which is not Python %s: it prints '%s'. Set LITERT_NPU_PYTHON to an interpreter of "
        "this version, or export the vendor with the interpreter.", program, PYTHON_VERSION, said);
    return false;
  }
  const char* version = python.Py_GetVersion();
  size_t length = build_length(version);
  if (strlen(said) == length && !strncmp(said, version, length)) return true;
  Dl_info library = {0};
  dladdr(*(void**)&python.Py_GetVersion, &library);
  SAY("LITERT_NPU_PYTHON is %s, which is Python %s, but the libpython to start is %.*s, of another build: %s. Set "
      "LITERT_NPU_LIBPYTHON to the libpython%s.so of that interpreter, or LITERT_NPU_PYTHON to an interpreter of this "
      "libpython.", program, said, (int)length, version, library.dli_fname ? library.dli_fname : "the program's own",
      PYTHON_VERSION);
  return false;
}

/* Starts Python like `python -I`: with its packages, but without its environment variables, signal handlers and
 * locale. */
static bool start_interpreter(void) {
  const char* named = getenv("LITERT_NPU_PYTHON");
  const char* program = named && *named ? named : PYTHON_PROGRAM;
  if (access(program, X_OK)) {
    SAY("no Python interpreter at %s. Set LITERT_NPU_PYTHON to a Python %s that has the vendor's packages.", program,
        PYTHON_VERSION);
    return false;
  }
  if (program == named && !is_program_of_version(program)) return false;
  PyPreConfig preconfig;
  python.PyPreConfig_InitIsolatedConfig(&preconfig);
  preconfig.utf8_mode = 1; /* the host sets the locale */
  if (!is_fine(python.Py_PreInitialize(&preconfig))) return false;
  wchar_t* name = python.Py_DecodeLocale(program, NULL);
  if (!name) {
    SAY("out of memory");
    return false;
  }
  python.Py_SetProgramName(name); /* Python keeps this pointer */
  PyConfig config = {0};
  python.PyConfig_InitIsolatedConfig(&config);
  PyStatus status = python.Py_InitializeFromConfig(&config);
  python.PyConfig_Clear(&config);
  if (!is_fine(status)) return false;
  python.PyEval_SaveThread(); /* the next call may come from any thread */
  atexit(end_interpreter);
  return true;
}

static bool set(PyObject* globals, const char* name, PyObject* value) {
  if (!value) return false;
  bool is_set = !python.PyDict_SetItemString(globals, name, value);
  python.Py_DecRef(value);
  return is_set;
}

/* With the GIL held. */
static bool find_vendor(const struct python_library* library) {
  PyObject* globals = new_globals();
  if (!globals) return false;
  bool is_found = false;
  if (set(globals, "symbols", python.PyUnicode_FromString(library->symbols)) &&
      set(globals, "functions", python.PyLong_FromVoidPtr((void*)library->functions)) &&
      set(globals, "close", python.PyLong_FromVoidPtr(*(void**)&library->close)) && run(BOOTSTRAP, globals)) {
    PyObject* problem = python.PyDict_GetItemString(globals, "problem");
    const char* text = problem ? python.PyUnicode_AsUTF8(problem) : NULL;
    is_found = text && !*text;
    static atomic_flag is_said = ATOMIC_FLAG_INIT; /* several threads may fail at the same time */
    if (!is_found && !atomic_flag_test_and_set(&is_said)) SAY("%s", text ? text : "the vendor cannot be loaded");
  } else {
    SAY("out of memory");
  }
  python.PyErr_Clear();
  python.Py_DecRef(globals);
  return is_found;
}

enum { NEW, FOUND, READY, FAILED }; /* FOUND: there is an interpreter, but the vendor is not loaded yet */
static _Atomic int state = NEW;
static _Atomic bool is_guard_due; /* the program is a Python program, and stock's functions have no guard yet */

static void find_interpreter(void) {
  /* Only one thread in the process starts Python at a time, even if several libraries like this one are loaded: they
   * all use the same lock. A thread that holds this lock never waits for Python. */
  flockfile(stderr);
  if (atomic_load(&state) == NEW) {
    bool is_found = find_functions();
    is_guard_due = is_found && python.Py_IsInitialized();
    bool is_there = is_found && (is_guard_due || start_interpreter());
    atomic_store(&state, is_there ? FOUND : FAILED);
  }
  funlockfile(stderr);
}

bool start_python(const struct python_library* library) {
  int now = atomic_load_explicit(&state, memory_order_acquire);
  if (now == READY && !is_guard_due) return true;
  if (now == NEW) find_interpreter();
  if (atomic_load(&state) == FAILED) return false;
  /* While the vendor is imported, other threads get the GIL at times. A thread that calls this function then waits
   * here, and finds the vendor loaded afterwards. */
  int gil = python.PyGILState_Ensure();
  if (is_guard_due && gil == GIL_LOCKED) is_guard_due = !guard_creation();
  if (atomic_load(&state) == FOUND)
    atomic_store_explicit(&state, find_vendor(library) ? READY : FAILED, memory_order_release);
  python.PyGILState_Release(gil);
  return atomic_load(&state) == READY;
}
