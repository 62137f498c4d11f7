/* Of PROJ, Karney's geodesics alone. */
#include <geodesic.h>
