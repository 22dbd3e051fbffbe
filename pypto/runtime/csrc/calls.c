/* What every call runs, from the instance that is called to the kernel and back: one unit, each file on top of those before. */
#include "entry_guards.c"
#include "entry.c"
#include "entries.c"
#include "dispatcher.c"
#include "instances.c"

Hooks hooks;
PyTypeObject *Entry_Type, *Dispatcher_Type;
