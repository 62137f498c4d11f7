/* The checksum of the hibernation store is XXH64, whose values are published. R-MEM-06 */
#include "check.h"
#include "opportune.h"

#include <errno.h>
#include <string.h>

static uint64_t sum(const char *text) {
    return opp_checksum(text, strlen(text));
}

int main(void) {
    CHECK(opp_checksum(NULL, 0) == 0xEF46DB3751D8E999u);
    CHECK(sum("a") == 0xD24EC4F1A98C6E5Bu);
    CHECK(sum("abc") == 0x44BC2CF5AD770999u);
    CHECK(sum("Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1u);

    /* Any bit that flips shows, wherever it is. */
    unsigned char bytes[71];
    for (size_t index = 0; index < sizeof(bytes); index++) bytes[index] = (unsigned char)(index * 37);
    uint64_t whole = opp_checksum(bytes, sizeof(bytes));
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        CHECK(opp_checksum(bytes, sizeof(bytes)) != whole);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    /* A hint, to whatever file. */
    opp_store_begin_writing(-1, 0, 4096);

    opp_store_probe probe;
    CHECK(opp_store_probe_run("/nowhere", &probe) == -ENOENT);
    CHECK(opp_store_probe_run(".", &probe) == 0 && probe.allocate <= 0 && probe.direct <= 0);
    if (opp_store_probe_run("/dev/shm", &probe) == 0) CHECK(probe.is_memory);
    return 0;
}
