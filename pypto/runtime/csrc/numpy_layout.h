/* The head of numpy's array and dtype objects, which numpy's own headers publish and keep stable: the same in its
 * versions 1 and 2 (what differs between them, from the item size on, is not read).  configure() compares what is read
 * through these declarations with what numpy says of real arrays, and refuses where they differ.
 */
#ifndef PYPTO_NUMPY_LAYOUT_H
#define PYPTO_NUMPY_LAYOUT_H

#include <Python.h>

typedef struct {
    PyObject_HEAD
    PyTypeObject *scalar_type;
    char kind, letter, byteorder, former_flags;
    int type_num;
} NumpyDescr;

typedef struct {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions, *strides;
    PyObject *base;
    NumpyDescr *descr;
    int flags;
} NumpyArray;

enum { ARRAY_C_CONTIGUOUS = 0x1, ARRAY_OWNS_DATA = 0x4, ARRAY_ALIGNED = 0x100, ARRAY_WRITEABLE = 0x400 };

static inline const NumpyArray *as_array(PyObject *object) { return (const NumpyArray *)object; }

static inline int is_swapped(const NumpyDescr *descr)
{
#if PY_LITTLE_ENDIAN
    return descr->byteorder == '>';
#else
    return descr->byteorder == '<';
#endif
}

#endif
