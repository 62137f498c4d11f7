/* Messages to one reader, from any thread: pushed lock-free, fetched all at once. */
#ifndef OPP_INBOX_H
#define OPP_INBOX_H

#include "opp_base.h"

OPP_BEGIN_DECLS

typedef struct opp_inbox opp_inbox;

opp_inbox *_Nullable opp_inbox_create(void);
/* Passes the remaining messages to `drop`. */
void opp_inbox_destroy(opp_inbox *_Nonnull inbox, void (*_Nullable drop)(void *_Nonnull message));

/* Any thread; never blocks. Returns 0 or -ENOMEM. If a fetch came too early for the message, the caller sees
 * what the reader did before that fetch. */
OPP_MUST_USE int opp_inbox_push(opp_inbox *_Nonnull inbox, void *_Nonnull message);

/* Reader's thread: calls `each` for every message, oldest first in the order of completed pushes. */
void opp_inbox_fetch(opp_inbox *_Nonnull inbox,
                     void (*_Nonnull each)(void *_Nonnull message, void *_Nullable context),
                     void *_Nullable context);

OPP_END_DECLS

#endif
