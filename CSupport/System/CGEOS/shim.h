/* Only the functions that take a handle are used, so only they are declared. */
#define GEOS_USE_ONLY_R_API
#include <geos_c.h>
