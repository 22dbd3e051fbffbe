/* Views of foreign tensors that cost no array. */
#ifndef PYPTO_EXCHANGE_H
#define PYPTO_EXCHANGE_H

#include "launcher.h"
#include "numpy_layout.h"

/* 0 with MemoryError. */
static int exchange_setup(void);
/* From hooks.exchange; -1 with an exception. */
static int exchange_configure(PyObject *given);
/* Whether `view_of` may be asked: 1, 0, -1 with an exception. */
static int may_view(PyObject *object);
/* 1, or 0 where there is no such view.  `head` is no object: it is looked at, never referenced. */
static int view_of(PyObject *object, NumpyArray *head);

#endif
