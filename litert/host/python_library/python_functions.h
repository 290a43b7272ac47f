/* Functions of Python that the library calls. None is linked: `start.c` looks them up. */
#ifndef LITERT_NPU_PYTHON_LIBRARY_PYTHON_FUNCTIONS_H_
#define LITERT_NPU_PYTHON_LIBRARY_PYTHON_FUNCTIONS_H_

#include <stddef.h>
#include <wchar.h>

typedef struct _object PyObject;

/* Structs as in Python, without the fields for Windows. */
typedef struct {
  int type;
  const char* function;
  const char* message;
  int exit_code;
} PyStatus;

typedef struct {
  int config_init, parse_argv, isolated, use_environment, configure_locale, coerce_c_locale, coerce_c_locale_warn;
  int utf8_mode, dev_mode, allocator;
} PyPreConfig;

/* Only the address of this struct is used; it has 456 bytes in Python 3.14. */
typedef union {
  max_align_t alignment;
  char bytes[4096];
} PyConfig;

typedef PyObject* (*PyCFunctionWithKeywords)(PyObject* self, PyObject* args, PyObject* kwargs);

typedef struct {
  const char* ml_name;
  PyCFunctionWithKeywords ml_meth; /* if the flags say so */
  int ml_flags;
  const char* ml_doc;
} PyMethodDef;

#define FILE_INPUT 257 /* Py_file_input */
#define GIL_LOCKED 0 /* PyGILState_LOCKED: the thread had the GIL already */
#define VARARGS_AND_KEYWORDS 3 /* METH_VARARGS | METH_KEYWORDS */

/* All these functions exist since Python 3.10. */
#define PYTHON_FUNCTIONS(X) \
  X(int, Py_IsInitialized, (void)) \
  X(const char*, Py_GetVersion, (void)) \
  X(int, PyGILState_Ensure, (void)) \
  X(void, PyGILState_Release, (int)) \
  X(PyObject*, PyEval_GetBuiltins, (void)) \
  X(PyObject*, PyEval_GetFrame, (void)) \
  X(void*, PyEval_SaveThread, (void)) \
  X(void, PyEval_RestoreThread, (void*)) \
  X(PyObject*, PyEval_EvalCode, (PyObject*, PyObject*, PyObject*)) \
  X(PyObject*, PyFrame_GetBack, (PyObject*)) \
  X(PyObject*, PyFrame_GetCode, (PyObject*)) \
  X(unsigned long, PyThread_get_thread_ident, (void)) \
  X(PyObject*, PyImport_GetModuleDict, (void)) \
  X(PyObject*, PyModule_GetDict, (PyObject*)) \
  X(PyObject*, PySys_GetObject, (const char*)) \
  X(PyCFunctionWithKeywords, PyCFunction_GetFunction, (PyObject*)) \
  X(int, PyCFunction_GetFlags, (PyObject*)) \
  X(int, PyGC_Enable, (void)) \
  X(int, PyGC_Disable, (void)) \
  X(PyObject*, Py_CompileString, (const char*, const char*, int)) \
  X(PyObject*, PyObject_CallObject, (PyObject*, PyObject*)) \
  X(PyObject*, PyObject_GetAttrString, (PyObject*, const char*)) \
  X(PyObject*, PyDict_New, (void)) \
  X(int, PyDict_Next, (PyObject*, ptrdiff_t*, PyObject**, PyObject**)) \
  X(PyObject*, PyDict_GetItem, (PyObject*, PyObject*)) \
  X(int, PyDict_SetItemString, (PyObject*, const char*, PyObject*)) \
  X(PyObject*, PyDict_GetItemString, (PyObject*, const char*)) \
  X(long, PyLong_AsLong, (PyObject*)) \
  X(PyObject*, PyLong_FromUnsignedLong, (unsigned long)) \
  X(PyObject*, PyLong_FromVoidPtr, (void*)) \
  X(PyObject*, PyUnicode_FromString, (const char*)) \
  X(const char*, PyUnicode_AsUTF8, (PyObject*)) \
  X(PyObject*, PyErr_Occurred, (void)) \
  X(void, PyErr_Clear, (void)) \
  X(void, Py_IncRef, (PyObject*)) \
  X(void, Py_DecRef, (PyObject*)) \
  X(void, PyPreConfig_InitIsolatedConfig, (PyPreConfig*)) \
  X(PyStatus, Py_PreInitialize, (const PyPreConfig*)) \
  X(void, PyConfig_InitIsolatedConfig, (PyConfig*)) \
  X(void, PyConfig_Clear, (PyConfig*)) \
  X(PyStatus, Py_InitializeFromConfig, (const PyConfig*)) \
  X(int, PyStatus_Exception, (PyStatus)) \
  X(wchar_t*, Py_DecodeLocale, (const char*, size_t*)) \
  X(void, Py_SetProgramName, (const wchar_t*))

struct python_functions {
#define MEMBER(result, name, arguments) result(*name) arguments;
  PYTHON_FUNCTIONS(MEMBER)
#undef MEMBER
};

extern struct python_functions python;

#endif /* LITERT_NPU_PYTHON_LIBRARY_PYTHON_FUNCTIONS_H_ */
