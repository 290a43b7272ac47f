/* Stock LiteRT's Python package creates a compiled model with the GIL and a lock of its own held, also while it calls
 * this library. Python code releases the GIL at times: a second thread could then acquire the GIL, wait for stock's
 * lock, and never release the GIL.
 *
 * Therefore the two functions that create models get a guard: only one model is created at a time, and a thread that
 * waits for the guard does not hold the GIL. The guard is installed inside the functions' definitions instead of
 * replacing the functions, since a thread may have looked up a function and be evaluating its arguments.
 *
 * The first call of this library in the process comes from a creation that has no guard yet. Its thread has held the
 * GIL since it acquired stock's lock, so that no other thread can be between the two locks; threads that come later
 * find the guard, and wait for the end of this first creation. No function reports this end, but it can be seen: until
 * then, the Python frame that called stock stays at the same instruction. After that, frames are not examined again.
 *
 * Environments need no guard: no code of this library runs while an environment is created. */
#define _GNU_SOURCE
#include "creation_guard.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "python_functions.h"
#include "say.h"

#define MODULE "_pywrap_litert_compiled_model_wrapper" /* last part of the name; the first depends on the build */
#define MARK "_litert_npu_creation_guard" /* attribute of the module: several libraries share one guard */
#define POLL_US 1000

/* A thread may create a model while it creates another one; stock decides how this ends. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* The creation that has no guard. Accessed only with the GIL held. */
static struct {
  unsigned long thread;
  PyObject* code; /* NULL after the creation has ended */
  long instruction;
} first;

static void forget_first(void) {
  PyObject* code = first.code;
  first.code = NULL;
  if (code) python.Py_DecRef(code);
}

/* Returns -1 for a Python error. */
static long instruction_of(PyObject* frame) {
  PyObject* number = python.PyObject_GetAttrString(frame, "f_lasti");
  long instruction = number ? python.PyLong_AsLong(number) : -1;
  if (number) python.Py_DecRef(number);
  return instruction;
}

/* Returns 1 or 0; -1 for a Python error. */
static int is_first_in(PyObject* frame) {
  PyObject* code = python.PyFrame_GetCode(frame);
  bool is_same = code == first.code;
  python.Py_DecRef(code);
  if (!is_same) return 0;
  long instruction = instruction_of(frame);
  return instruction == -1 && python.PyErr_Occurred() ? -1 : instruction == first.instruction;
}

/* Whether the thread still has a frame at the instruction that called the first creation. Returns 1 or 0; -1 for a
 * Python error. */
static int is_first_going_on(void) {
  PyObject* get_frames = python.PySys_GetObject("_current_frames");
  PyObject* frames = get_frames ? python.PyObject_CallObject(get_frames, NULL) : NULL;
  PyObject* thread = frames ? python.PyLong_FromUnsignedLong(first.thread) : NULL;
  PyObject* frame = thread ? python.PyDict_GetItem(frames, thread) : NULL;
  if (frame) python.Py_IncRef(frame);
  if (thread) python.Py_DecRef(thread);
  if (frames) python.Py_DecRef(frames);
  int is_going_on = python.PyErr_Occurred() ? -1 : 0;
  while (frame && !is_going_on) {
    is_going_on = is_first_in(frame);
    PyObject* back = python.PyFrame_GetBack(frame);
    python.Py_DecRef(frame);
    frame = back;
  }
  if (frame) python.Py_DecRef(frame);
  return is_going_on;
}

/* Returns false, with a Python error, if this is unknown. */
static bool wait_for_first(void) {
  while (first.code) {
    int is_going_on = is_first_going_on();
    if (is_going_on < 0) return false;
    if (!is_going_on) {
      forget_first();
      break;
    }
    void* thread = python.PyEval_SaveThread();
    usleep(POLL_US);
    python.PyEval_RestoreThread(thread);
  }
  return true;
}

static PyObject* create(PyCFunctionWithKeywords original, PyObject* self, PyObject* args, PyObject* kwargs) {
  /* A thread that creates another model has ended its first creation. */
  if (first.code && first.thread == python.PyThread_get_thread_ident()) forget_first();
  if (pthread_mutex_trylock(&lock)) {
    void* thread = python.PyEval_SaveThread();
    pthread_mutex_lock(&lock);
    python.PyEval_RestoreThread(thread);
  }
  PyObject* model = wait_for_first() ? original(self, args, kwargs) : NULL;
  pthread_mutex_unlock(&lock);
  return model;
}

#define GUARDED(X) X(CreateCompiledModelFromFile) X(CreateCompiledModelFromBuffer)

#define GUARD(name) \
  static PyCFunctionWithKeywords original_##name; \
  static PyObject* guarded_##name(PyObject* self, PyObject* args, PyObject* kwargs) { \
    return create(original_##name, self, args, kwargs); \
  }
GUARDED(GUARD)

/* The definition of a builtin function with positional and keyword arguments, which is stored directly after the fields
 * that all objects have; NULL for any other object. */
static PyMethodDef* definition_of(PyObject* function) {
  PyObject* object = python.PyDict_GetItemString(python.PyEval_GetBuiltins(), "object");
  PyObject* size = object ? python.PyObject_GetAttrString(object, "__basicsize__") : NULL;
  long head_bytes = size ? python.PyLong_AsLong(size) : -1;
  if (size) python.Py_DecRef(size);
  PyCFunctionWithKeywords call = python.PyCFunction_GetFunction(function);
  PyMethodDef* definition = NULL;
  if (call && head_bytes > 0 && python.PyCFunction_GetFlags(function) == VARARGS_AND_KEYWORDS)
    memcpy(&definition, (const char*)function + head_bytes, sizeof definition);
  python.PyErr_Clear();
  bool is_sound = definition && definition->ml_meth == call && definition->ml_flags == VARARGS_AND_KEYWORDS;
  return is_sound ? definition : NULL;
}

static bool guard_function(
    PyObject* module, const char* name, PyCFunctionWithKeywords* original, PyCFunctionWithKeywords guarded) {
  PyObject* function = python.PyDict_GetItemString(module, name);
  PyMethodDef* definition = function ? definition_of(function) : NULL;
  if (!definition) return false;
  *original = definition->ml_meth;
  definition->ml_meth = guarded;
  return true;
}

/* The attributes of the module in stock's package; NULL if the module is not loaded. */
static PyObject* find_module(void) {
  PyObject* modules = python.PyImport_GetModuleDict();
  PyObject *name, *module;
  for (ptrdiff_t position = 0; python.PyDict_Next(modules, &position, &name, &module);) {
    const char* text = python.PyUnicode_AsUTF8(name);
    if (!text) python.PyErr_Clear(); /* a key may be any object */
    const char* last = text ? strrchr(text, '.') : NULL;
    if (text && !strcmp(last ? last + 1 : text, MODULE)) return python.PyModule_GetDict(module);
  }
  return NULL;
}

static void note_first(void) {
  PyObject* frame = python.PyEval_GetFrame();
  if (!frame) return; /* not called by Python code that would continue */
  first.thread = python.PyThread_get_thread_ident();
  first.instruction = instruction_of(frame);
  first.code = python.PyFrame_GetCode(frame);
}

static void guard_module(PyObject* module) {
  PyObject* mark = python.PyUnicode_FromString(MANUFACTURER);
  if (!mark) return;
  bool is_guarded = !python.PyDict_SetItemString(module, MARK, mark);
  python.Py_DecRef(mark);
#define SET(name) is_guarded = guard_function(module, #name, &original_##name, guarded_##name) && is_guarded;
  GUARDED(SET)
  note_first();
  if (!is_guarded)
    SAY("%s has an unknown structure: threads that create models at the same time may deadlock.", MODULE);
}

bool guard_creation(void) {
  int is_collecting = python.PyGC_Disable(); /* finalizers are Python code */
  PyObject* module = find_module();
  if (module && !python.PyDict_GetItemString(module, MARK)) guard_module(module);
  python.PyErr_Clear();
  if (is_collecting) python.PyGC_Enable();
  return module != NULL;
}
