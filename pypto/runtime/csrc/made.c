/* What some calls make first: of foreign tensors and numbers what entries look at, and outputs that nobody passes. */
#include "exchange.c"
#include "values.c"
#include "hidden.c"
