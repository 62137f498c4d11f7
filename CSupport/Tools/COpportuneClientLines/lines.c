/* The client library's line.c once more, from its own source. */
#include "opportune_client_lines.h"

#include "../../OpportuneClient/line.c"
