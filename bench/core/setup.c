#include "setup.h"

#include <string.h>

opp_core *setup_core(void) {
    opp_core_config config;
    opp_core *core;
    memset(&config, 0, sizeof(config));
    config.max_apps = 4096;
    for (int rank = 0; rank < OPP_RANKS; rank++) {
        config.level_of[0][rank] = (uint8_t)(rank < 20 ? 20 - rank : 0);
        config.level_of[1][rank] = (uint8_t)(rank < 30 ? 50 - rank : 20);
        config.level_of[2][rank] = (uint8_t)(rank < 12 ? 63 - rank : 51);
    }
    return opp_core_create(&config, &core) == 0 ? core : NULL;
}
