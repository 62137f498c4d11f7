/*
 * What a file for scripts/explore-own defines: docs/guide/explore.md.
 */
#ifndef OPP_OWN_H
#define OPP_OWN_H

#include "opp_explorer.h"

extern const oppx_target own_target;
extern const oppx_world own_worlds[]; /* without their target's name; one without a name ends them */

#endif
