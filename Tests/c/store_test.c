/* What the hibernation store asks of the machine. R-MEM-06 */
#include "check.h"
#include "opportune.h"

#include <errno.h>

int main(void) {
    /* A hint, to whatever file. */
    opp_store_begin_writing(-1, 0, 4096);

    opp_store_probe probe;
    CHECK(opp_store_probe_run("/nowhere", &probe) == -ENOENT);
    CHECK(opp_store_probe_run(".", &probe) == 0 && probe.allocate <= 0 && probe.direct <= 0);
    if (opp_store_probe_run("/dev/shm", &probe) == 0) CHECK(probe.is_memory);
    return 0;
}
