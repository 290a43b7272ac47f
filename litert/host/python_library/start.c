/* Starts Python, or joins the interpreter that the program has already, and asks it for the vendor's functions.
 *
 * Nothing of Python is linked: the library has to load in a program that knows nothing of it, with RTLD_LOCAL and
 * RTLD_DEEPBIND. All that is called is looked up. An interpreter that was started here is never ended: the host may
 * hold on to the vendor's objects until its last destructor. */
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

/* Of an interpreter that was started here: what Python does at its end, but for joining threads. */
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

/* The path of a libpython that the program has loaded, for itself or for all. */
static int find_libpython(struct dl_phdr_info* info, size_t size, void* found) {
  (void)size;
  const char* name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
  if (!name || strncmp(name, "/libpython3.", 12)) return 0;
  *(const char**)found = info->dlpi_name;
  return 1;
}

/* The library to look Python's functions up in; the program's own, if it has one. */
static bool open_libpython(void** library) {
  *library = RTLD_DEFAULT;
  if (dlsym(RTLD_DEFAULT, "Py_IsInitialized")) return true;
  const char* path = NULL;
  dl_iterate_phdr(find_libpython, &path);
  if (!path) path = getenv("LITERT_NPU_LIBPYTHON");
  if (!path || !*path) path = LIBPYTHON;
  if (!*path) {
    SAY("the Python %s that this library was made with has no shared libpython, so that only a program that is Python "
        "can load it. Set LITERT_NPU_LIBPYTHON to the libpython%s.so of one that has.", PYTHON_VERSION, PYTHON_VERSION);
    return false;
  }
  /* Extension modules, such as NumPy's, take Python's functions from all that is global. */
  *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!*library)
    SAY("cannot load Python: %s. LITERT_NPU_LIBPYTHON names another libpython%s.so.", dlerror(), PYTHON_VERSION);
  return *library != NULL;
}

static bool find_functions(void) {
  void* library;
  if (!open_libpython(&library)) return false;
  const char* (*get_version)(void);
  *(void**)&get_version = dlsym(library, "Py_GetVersion");
  if (!get_version) {
    SAY("what LITERT_NPU_LIBPYTHON names is no libpython: it has no Py_GetVersion.");
    return false;
  }
  const char* version = get_version();
  if (!is_of_version(version)) {
    SAY("made with Python %s, and the one that is here is Python %.*s. Export the vendor with that one, or load it in a "
        "program that has none.", PYTHON_VERSION, (int)strcspn(version, " "), version);
    return false;
  }
#define FIND(result, name, arguments) \
  *(void**)&python.name = dlsym(library, #name); \
  if (!python.name) { \
    SAY("the libpython that is here has no %s", #name); \
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

/* At the program's end. A thread that is in Python gives way for it. */
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
  SAY("Python cannot be started: %s. LITERT_NPU_PYTHON names the interpreter whose packages are used.",
      status.message ? status.message : "no reason given");
  return false;
}

/* What a version says before its build's date: `3.13.0`, also ` experimental free-threading build`, or who packaged it. */
static size_t build_length(const char* version) {
  size_t length = strcspn(version, "(");
  while (length && version[length - 1] == ' ') length--;
  return length;
}

/* The interpreter that the user names must be of the library's version, whose packages load there, and of the build of
 * the libpython that is started: what one has built in, another has in files of its own. */
static bool is_program_of_version(const char* program) {
  char said[160] = "";
  FILE* output = popen("exec \"$LITERT_NPU_PYTHON\" -ISc 'import sys; print(sys.version.split(\"(\")[0].strip())' 2>&1", "r");
  if (!output || !fgets(said, sizeof(said), output)) said[0] = '\0';
  if (output) pclose(output);
  said[strcspn(said, "\n")] = '\0';
  if (!is_of_version(said)) {
    SAY("LITERT_NPU_PYTHON is %s, which is no Python %s but says '%s'. Set it to one of that version, or export the "
        "vendor with this one.", program, PYTHON_VERSION, said);
    return false;
  }
  const char* version = python.Py_GetVersion();
  size_t length = build_length(version);
  if (strlen(said) == length && !strncmp(said, version, length)) return true;
  Dl_info library = {0};
  dladdr(*(void**)&python.Py_GetVersion, &library);
  SAY("LITERT_NPU_PYTHON is %s, which is Python %s, and the libpython that is started is %.*s, of another build: %s. Set "
      "LITERT_NPU_LIBPYTHON to the libpython%s.so of that interpreter, or LITERT_NPU_PYTHON to an interpreter of this "
      "libpython.", program, said, (int)length, version, library.dli_fname ? library.dli_fname : "the program's own",
      PYTHON_VERSION);
  return false;
}

/* As `python -I` would: with its packages, without its environment variables, signal handlers and locale. */
static bool start_interpreter(void) {
  const char* named = getenv("LITERT_NPU_PYTHON");
  const char* program = named && *named ? named : PYTHON_PROGRAM;
  if (access(program, X_OK)) {
    SAY("no Python interpreter at %s. Set LITERT_NPU_PYTHON to one of version %s that has the vendor's packages.", program,
        PYTHON_VERSION);
    return false;
  }
  if (program == named && !is_program_of_version(program)) return false;
  PyPreConfig preconfig;
  python.PyPreConfig_InitIsolatedConfig(&preconfig);
  preconfig.utf8_mode = 1; /* the locale is the host's */
  if (!is_fine(python.Py_PreInitialize(&preconfig))) return false;
  wchar_t* name = python.Py_DecodeLocale(program, NULL);
  if (!name) {
    SAY("out of memory");
    return false;
  }
  python.Py_SetProgramName(name); /* kept by Python */
  PyConfig config = {0};
  python.PyConfig_InitIsolatedConfig(&config);
  PyStatus status = python.Py_InitializeFromConfig(&config);
  python.PyConfig_Clear(&config);
  if (!is_fine(status)) return false;
  python.PyEval_SaveThread(); /* any thread may be the next */
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
    static atomic_flag is_said = ATOMIC_FLAG_INIT; /* threads may fail side by side */
    if (!is_found && !atomic_flag_test_and_set(&is_said)) SAY("%s", text ? text : "the vendor cannot be loaded");
  } else {
    SAY("out of memory");
  }
  python.PyErr_Clear();
  python.Py_DecRef(globals);
  return is_found;
}

enum { NEW, FOUND, READY, FAILED }; /* FOUND: an interpreter, and not the vendor yet */
static _Atomic int state = NEW;
static _Atomic bool is_guard_due; /* the program is Python, and stock's functions have no guard yet */

static void find_interpreter(void) {
  /* One start at a time in the process, also where several libraries such as this one come at once: a lock that all of
   * them know. No thread that holds it waits for Python. */
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
  /* While the vendor is imported others get the GIL at times. Who comes then waits there, and finds it done. */
  int gil = python.PyGILState_Ensure();
  if (is_guard_due && gil == GIL_LOCKED) is_guard_due = !guard_creation();
  if (atomic_load(&state) == FOUND)
    atomic_store_explicit(&state, find_vendor(library) ? READY : FAILED, memory_order_release);
  python.PyGILState_Release(gil);
  return atomic_load(&state) == READY;
}
