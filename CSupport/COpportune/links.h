/* Lists whose links are in their members. Private to the core. */
#ifndef OPP_LINKS_H
#define OPP_LINKS_H

#include "opp_base.h"

/* What was pushed onto a stack, taken whole: oldest first. Nobody else has the links any more. */
static inline opp_link *links_oldest_first(opp_link *taken) {
    opp_link *oldest = NULL;
    while (taken != NULL) {
        opp_link *next = taken->next;
        taken->next = oldest;
        oldest = taken;
        taken = next;
    }
    return oldest;
}

#endif
