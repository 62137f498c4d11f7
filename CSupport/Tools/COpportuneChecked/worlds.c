/* The targets, and the small programs that are explored to the end. Add a world for each bug that was
 * found. */
#include "opp_checked.h"

#include <errno.h>
#include <string.h>

static const oppx_target *const targets[] = {
    &checked_runq, &checked_queue,    &checked_parking, &checked_pool,   &checked_inbox,
    &checked_alarms, &checked_ring,   &checked_closers, &checked_table,  &checked_purge,  &checked_records,
    &checked_report, &checked_readiness,
    &checked_canary, &checked_canary_sleep, &checked_canary_old, &checked_canary_stopped, &checked_litmus,
};

const oppx_target *const *checked_targets(size_t *count) {
    *count = sizeof(targets) / sizeof(targets[0]);
    return targets;
}

const oppx_target *checked_target_named(const char *name) {
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
        if (strcmp(targets[i]->name, name) == 0) return targets[i];
    return NULL;
}

#define ANY OPPX_UNBOUNDED

/* without a number of refusals there are none */
#pragma clang diagnostic ignored "-Wmissing-field-initializers"

/* name, target, program, preemptions, old values, threads stopped, waits that end early, quick, refusals */
static const oppx_world worlds[] = {
    {"queue-two-pushers", "queue", "push; push | push; push | take", 2, 1, 0, 0, true},
    {"queue-push-take", "queue", "push; push; push | take; take", ANY, 2, 0, 0, true},
    {"queue-recycle", "queue", "push; push; push; push; push | take; take; take | take; take", 2, 1, 0, 0,
        true},
    {"queue-stopped", "queue", "push; push; push | push | take; take; take", 2, 1, 1, 0, false},
    {"queue-first-push", "queue", "push | push | take", ANY, ANY, 0, 0, false},
    {"queue-two-consumers", "queue", "push; push; push | take; take | take; take", 3, 1, 0, 0, true},
    {"queue-pool", "queue",
     "push; push; push; push; take; take; take; take; push; push; push | push; push; push; take; "
     "take", 1, 0, 0, 0, true},
    {"queue-order", "queue", "push; meet | meet; push; push | take; take; take", 3, 1, 0, 0, false},
    {"queue-sweep", "queue", "push; leave; push | push; leave; take; take", 2, 1, 0, 0, true},
    {"queue-sweep-two-consumers", "queue", "push; leave; push | push; take; leave | take; take", 2, 0, 0, 0,
        true},
    {"queue-sweep-stopped", "queue", "push; leave; push | push; leave; push | take; take; take", 1, 0, 1, 0,
        true},
    {"queue-comes-back", "queue", "push; take; leave; push | push; take | take | push", 3, 0, 0, 0, false},
    {"queue-late-reader", "queue", "push; push; push; meet; take | meet; push; push; take; take; push", 1, 6,
        0, 0, false},
    {"queue-short-of-memory", "queue", "push; push; push; push | push; push | take; take; take", 1, 0, 0, 0,
        true, 2},
    {"runq-push-take", "runq", "push 0 0 | take; take", 3, 2, 0, 0, true},
    {"runq-same-rank", "runq", "push 0 0; push 0 0 | take; take", 2, 1, 0, 0, true},
    {"runq-two-pushers", "runq", "push 0 0 | push 0 0 | take; take", 2, 1, 0, 0, true},
    {"runq-two-consumers", "runq", "push 0 0; push 0 0 | take; take | take", 2, 1, 0, 0, true},
    {"runq-repair", "runq", "push 0 0; take; take; push 0 0 | take; take", 2, 1, 0, 0, true},
    {"runq-bypass", "runq",
     "push 0 0; meet | push 0 0; take; meet; push 0 0; push 0 0; take; push 0 0; take; push 0 0; take; "
     "push 0 0; take; push 0 0; take; push 0 0; take; push 0 0; take; push 0 0; take; push 0 0; take; "
     "push 0 0; take; push 0 0; take",
     1, 0, 0, 0, true},
    {"runq-stopped", "runq", "push 0 0; push 0 0 | take; push 0 0 | take", 1, 0, 1, 0, true},
    {"runq-levels", "runq", "push 0 0; push 1 0 | take; take", 2, 1, 0, 0, true},
    {"runq-suspend", "runq", "push 0 0 | take; leave | suspend 0", 3, 1, 0, 0, true},
    {"runq-suspend-new-worker", "runq", "push 0 0; worker; take; leave | suspend 0", 3, 1, 0, 0, true},
    {"runq-state", "runq", "suspend 0 | state 0", OPPX_UNBOUNDED, 2, 0, 0, true},
    {"runq-donate", "runq", "donate 0; donate 0 | suspend 0", OPPX_UNBOUNDED, 2, 0, 0, true},
    {"runq-resume", "runq", "suspend 0; push 0 0; resume 0 | take; take", 2, 1, 0, 0, true},
    {"runq-band", "runq", "push 0 0; band 0 1 | take; take_high", 2, 1, 0, 0, true},
    {"runq-given-back", "runq",
     "push 1 0; push 1 0; push 1 0; band 1 0; take; meet; take | take_high; meet", 3, 0, 0, 0, true},
    {"runq-turns", "runq",
     "band 0 1; push 0 1; push 0 1; push 0 1; push 1 1; take; take; push 0 0; take; take | "
     "take", 1, 0, 0, 0, true},
    {"runq-turn-ends", "runq", "band 0 1; push 0 1; push 0 1; push 1 1; take; turn; take | take", 1, 0, 0, 0,
        true},
    {"runq-adopt", "runq", "push 0 0; adopt; push 0 0 | push 0 0; adopt; push 0 0; take", 2, 1, 0, 0, true},
    {"runq-again-band", "runq", "push 0 0; take; take; push 0 0 | band 0 1", 2, 1, 0, 0, true},
    {"runq-again-suspend", "runq", "push 0 0; push 0 0; take; leave; take; leave | suspend 0", 2, 1, 0, 0,
        true},
    {"runq-again-swept", "runq", "push 0 0; take; adopt; push 0 0 | push 0 0; take; take", 2, 0, 0, 0, true},
    {"runq-again-levels", "runq", "push 0 0; push 0 0; take; push 0 1; take; take | push 1 0", 2, 1, 0, 0,
        true},
    {"runq-again-stopped", "runq", "push 0 0; push 0 0; push 0 0 | take; take; take", 1, 0, 1, 0, true},
    {"runq-short-of-memory", "runq", "push 0 0; push 0 0; push 0 0; push 0 0 | take; take; take", 1, 0, 0, 0,
        true, 1},
    {"runq-given-back-short", "runq", "push 0 0; take | suspend 0; resume 0 | take", 2, 0, 0, 0, true, 1},
    {"runq-far", "runq", "push 0 0 | push 0 0 | far; take", 2, 1, 0, 0, true},
    {"records-apps", "records", "app; keep | app; keep | take; take", 1, 1, 0, 0, true},
    {"records-queues", "records", "queue; queue | queue; queue", 2, 1, 0, 0, true},
    {"records-nodes", "records", "keep; take | take | keep; take", 2, 1, 0, 0, false},
    {"records-producers", "records", "keep; producer; keep | producer; take; look", 2, 1, 0, 0, true},
    {"records-drain", "records", "keep; keep | drain", 2, 1, 0, 0, true},
    {"records-destroy", "records", "destroy | destroy | destroy", 3, 1, 0, 0, true},
    {"pool-sleep", "pool", "submit; submit | work; work", 5, 2, 0, 0, true},
    {"pool-two-workers", "pool", "submit; submit | work; work | work; work", 3, 1, 0, 0, false},
    {"pool-two-tokens", "pool", "tokens 1; submit; submit | work | work", 3, 1, 0, 0, false},
    {"pool-two-submitters", "pool", "submit | submit | work; work", 3, 1, 0, 0, true},
    {"pool-two-submitters-long", "pool", "submit | submit | work; work", 4, 1, 0, 0, false},
    {"pool-wake-spare", "pool", "submit; spare | work; work | work", 3, 1, 0, 0, false},
    {"pool-close", "pool", "submit; close | work; work | work; work", 3, 1, 0, 0, false},
    {"pool-stopped", "pool", "submit; submit | work; work | submit", 2, 1, 1, 0, false},
    {"pool-stopped-holder", "pool", "tokens 1; submit; submit; submit | work; work | work; work", 1, 0, 1, 0,
        true},
    {"pool-early", "pool", "submit; submit | work; work", 3, 1, 0, 2, true},
    {"pool-hog", "pool", "hog; submit | work; work", 4, 1, 0, 0, true},
    {"pool-two-hogs", "pool", "hog; hog | work | work", 2, 1, 0, 0, true},
    {"pool-hand-off", "pool", "submit; hand_off 1; submit | work; work", 4, 1, 0, 0, true},
    {"pool-hand-off-two-workers", "pool", "submit; hand_off 1; submit | work; work | work", 2, 1, 0, 0, true},
    {"pool-sink", "pool", "submit; sink 1; hog | work; work", 3, 1, 0, 0, true},
    {"pool-sink-two-hogs", "pool", "hog; sink 1; sink 2 | work | work; submit", 2, 1, 0, 0, true},
    {"pool-count", "pool", "submit; hand_off 1; count 1; uncount 1 | work", 3, 1, 0, 0, true},
    {"pool-uncount", "pool", "hog; hog; uncount 1; uncount 2 | work | work", 2, 0, 0, 0, true},
    {"pool-two-monitors", "pool", "submit; sink 2 | hand_off 2; count 2 | work", 2, 1, 0, 0, true},
    {"pool-spare", "pool", "stall; submit; submit | work; work | work", 2, 1, 0, 0, true},
    {"pool-spare-stopped", "pool", "stall; submit; look; look; submit | work; work | work", 1, 0, 1, 0, true},
    {"pool-hand-off-stopped", "pool", "submit; hand_off 1; submit | work; work | submit", 1, 1, 1, 0, true},
    {"pool-sink-stopped", "pool", "hog; sink 1; hog | work; work | submit", 1, 1, 1, 0, true},
    {"pool-hog-stopped", "pool", "hog; submit | work | work", 1, 1, 1, 0, true},
    {"pool-room-stopped", "pool", "hog; hog; room | work | work", 1, 1, 1, 0, true},
    {"pool-idle", "pool", "submit; idle | work; work", 4, 1, 0, 0, true},
    {"parking-idle", "parking", "submit; idle | work", 3, 1, 0, 0, true},
    {"parking-idle-third", "parking", "submit; idle | work | work", 2, 1, 0, 0, false},
    {"parking-idle-appointed", "parking", "work; idle | cancel | work", 2, 1, 0, 0, false},
    {"parking-bit-stopped", "parking", "work | hog; suspend; work", 2, 0, 1, 0, true},
    {"pool-close-parked", "pool", "close | work", 5, 2, 0, 0, true},
    {"parking-hand-off", "parking", "submit; hand_off 1; submit | work; work", 2, 0, 0, 0, true},
    {"parking-hog", "parking", "hog; submit | work; work", 2, 1, 0, 0, true},
    {"parking-chain", "parking", "submit | chain; work", 3, 1, 0, 0, true},
    {"parking-chain-handed-off", "parking", "submit; hand_off 1 | chain; work | work", 1, 0, 0, 0, true},
    {"parking-wait", "parking", "submit; submit | wait; work", 2, 1, 0, 0, true},
    {"parking-wait-two-workers", "parking", "submit; submit | wait | work", 2, 0, 0, 0, true},
    {"parking-wait-counted", "parking", "submit; hand_off 1; count 1; submit | wait; work", 2, 0, 0, 0, true},
    {"parking-wait-stopped", "parking", "submit; submit | wait; work | submit", 1, 0, 1, 0, false},
    {"parking-arrive", "parking", "arrive | work", 3, 1, 0, 0, true},
    {"parking-arrive-submit", "parking", "submit; arrive | work; work", 2, 1, 0, 0, true},
    {"parking-arrive-two-workers", "parking", "arrive; submit | work; work | work", 2, 0, 0, 0, false},
    {"parking-arrive-submitter", "parking", "arrive | submit | work; work", 2, 0, 0, 0, true},
    {"parking-arrive-harvest", "parking", "submit; submit | work; work | arrive", 2, 0, 0, 0, true},
    {"parking-arrive-spare", "parking", "arrive; spare | work | work", 2, 0, 0, 0, false},
    {"parking-receive", "parking", "arrive; arrive | receive; receive", 3, 1, 0, 0, true},
    {"parking-receive-three-workers", "parking",
        "arrive; submit; arrive; submit; arrive | receive; receive | receive; receive | receive", 1, 0, 0, 0,
        false},
    {"parking-receive-two-workers", "parking", "arrive; arrive | receive | receive", 2, 0, 0, 0, true},
    {"parking-receive-cancelled", "parking", "arrive | cancel; cancel | receive; work", 2, 0, 0, 0, true},
    {"parking-arrive-close", "parking", "arrive; close | work; work", 2, 0, 0, 0, true},
    {"parking-arrive-stopped", "parking", "submit; arrive | work; work | submit", 1, 0, 1, 0, false},
    {"parking-arrive-kept", "parking", "submit | arrive | work; work", 1, 0, 1, 0, true},
    {"parking-receive-stopped", "parking", "arrive | receive; receive | work; cancel", 1, 0, 1, 0, true},
    {"parking-add", "parking", "arrive; add | work", 3, 1, 0, 0, true},
    {"parking-add-arrive", "parking", "add | arrive | work", 2, 1, 0, 0, true},
    {"parking-add-two-workers", "parking", "add | arrive | work | work", 1, 0, 0, 0, true},
    {"parking-add-submit", "parking", "submit; add | arrive | work; work", 1, 1, 0, 0, true},
    /* a worker that is started to lead works first, and ends; or is beaten to it by another that parks */
    {"parking-add-started", "parking", "submit; add | arrive | work | work", 1, 0, 0, 0, true},
    {"parking-add-stopped", "parking", "add; arrive | work; work | submit", 1, 0, 1, 0, false},
    {"parking", "parking", "submit; submit | work; work", 2, 1, 0, 0, true},
    {"parking-two-submitters", "parking", "submit | submit | work; work", 2, 0, 0, 0, true},
    {"parking-suspend", "parking", "submit; suspend; resume | work; work", 2, 1, 0, 0, true},
    {"parking-stopped", "parking", "submit; submit | work; work | submit", 1, 0, 1, 0, false},
    {"inbox", "inbox", "fetch; fetch | push; push | push", ANY, ANY, 1, 0, true},
    {"inbox-one-after-another", "inbox", "fetch; fetch | push; meet | meet; push", ANY, 1, 0, 0, true},
    {"inbox-short-of-memory", "inbox", "fetch; fetch | push; push | push", ANY, 1, 0, 0, true, 1},
    {"inbox-too-late", "inbox", "fetch; fetch; fetch | push; push | push", ANY, 1, 0, 0, true},
    {"alarms", "alarms", "wait; wait; wait | post; post | post", 3, 2, 1, 0, false},
    {"alarms-mark", "alarms", "wait; wait; wait | mark; mark | mark", 3, 1, 0, 0, true},
    {"alarms-notifier", "alarms", "wait; wait | post; notify | notify", 3, 2, 1, 0, true},
    {"alarms-leave", "alarms", "wait; wait; wait | enter; leave | enter; leave; enter", 3, 1, 0, 0, true},
    {"alarms-leave-three", "alarms", "wait; wait; wait | enter; leave | enter; leave | enter", 3, 1, 0, 0, false},
    {"alarms-leave-stopped", "alarms", "wait; wait; wait | enter; leave | mark; enter; leave", 2, 1, 1, 0, true},
    {"ring-sleep", "ring", "wait; wait; wait | post; post", ANY, 2, 0, 0, true},
    {"ring-two-posters", "ring", "wait; wait; wait | post; post | post", 3, 1, 0, 0, true},
    {"ring-threads", "ring", "wait; wait; wait | complete; complete | complete", 3, 1, 0, 0, true},
    {"ring-both", "ring", "wait; wait | complete; post | post", 3, 1, 0, 0, true},
    {"ring-stopped", "ring", "wait; wait; wait | post; complete | post", 2, 1, 1, 0, true},
    {"closers", "closers", "ask; wait; ask; end | serve", 3, 1, 0, 0, true},
    {"closers-two", "closers", "ask; ask; wait; ask; end | serve | serve", 2, 1, 0, 0, false},
    {"closers-stopped", "closers", "ask; ask; wait; wait | serve | serve", 2, 1, 1, 0, true},
    {"closers-early", "closers", "ask; end | serve", 3, 1, 0, 2, true},
    {"readiness-event", "readiness", "arrive 0; arrive 0 | harvest; harvest | receive; receive",
        3, 1, 0, 0, true},
    {"readiness-two", "readiness", "arrive 0; arrive 1 | harvest; harvest | receive | receive",
        2, 1, 0, 0, true},
    {"readiness-remove", "readiness", "arrive 0; remove 0 | harvest; harvest | receive; receive",
        3, 1, 0, 0, true},
    {"readiness-end", "readiness", "arrive 0; end 0 | harvest; harvest | receive; receive", 3, 1, 0, 0, true},
    {"readiness-close", "readiness", "close | harvest | receive | receive", 3, 1, 0, 0, true},
    {"readiness-cancel", "readiness", "cancel 0; arrive 0 | harvest | receive; receive", 3, 1, 0, 0, true},
    {"readiness-add", "readiness", "arrive 0; arrive 0 | harvest; harvest | add; receive; receive",
        3, 1, 0, 0, true},
    {"readiness-add-two", "readiness", "arrive 0; arrive 1 | harvest; harvest | add; receive | add; receive",
        1, 1, 0, 0, true},
    {"readiness-add-remove", "readiness", "arrive 0; remove 0 | harvest; harvest | add; receive; receive",
        3, 1, 0, 0, true},
    {"readiness-add-close", "readiness", "close | harvest | add; receive | receive", 3, 1, 0, 0, true},
    {"readiness-add-stopped", "readiness", "arrive 0; arrive 1 | harvest; harvest | add; receive | receive",
        1, 0, 1, 0, true},
    {"readiness-stopped", "readiness", "arrive 0; arrive 1; end 0 | harvest; harvest | receive | receive",
        1, 0, 1, 0, true},
    {"report-read", "report", "job; job | | look", ANY, 2, 0, 0, true},
    {"report-start", "report", "start | meter | meter", ANY, 2, 0, 0, true},
    {"report-two-readers", "report", "job; job | look; look | look", 3, 1, 0, 0, true},
    {"report-change", "report", "job; job | change 1; change 2", ANY, 1, 0, 0, true},
    {"report-own", "report", "job; own 1; job | change 1; change 0", ANY, 1, 0, 0, true},
    {"report-raise", "report", "raise; job | change 1; change 2", 4, 1, 0, 0, true},
    {"report-raise-again", "report", "raise; raise | change 1; change 2", 2, 0, 0, 0, true},
    {"report-deepen", "report", "job; job | deepen; deepen", ANY, 2, 0, 0, true},
    {"report-class", "report", "job; job | leave; leave", ANY, 2, 0, 0, true},
    {"report-alarm", "report", "job; raise | watch; watch; watch", 3, 1, 1, 0, true},
    {"report-stopped", "report", "job; raise | look; change 1; look | look", 2, 1, 1, 0, true},
    {"table-alone", "table",
     "put 0 1; put 1 2; get 0; get 1; remove 0; get 0; put 2 3; get 1; put 1 4; get 1", 0, 0, 0, 0, true},
    {"purge-eager", "purge", "use; use | take; take", 3, 1, 0, 0, true},
    {"purge-lazy", "purge", "use; use | offer 0; offer 1", 3, 1, 0, 0, true},
    {"purge-two-users", "purge", "use; use | use; use | take", 2, 1, 0, 0, true},
    {"purge-two-consumers", "purge", "use; use | take | offer 1", 2, 1, 0, 0, true},
    {"purge-keep", "purge", "keep; use; let; use | take; take", 3, 1, 0, 0, true},
    {"purge-close", "purge", "open; close; open; close | take; take", 2, 1, 0, 0, true},
    {"purge-close-lazy", "purge", "open; close; open; close | offer 1; offer 0", 2, 1, 0, 0, true},
    {"purge-open", "purge", "open; close; open; close | open; close; open; close", 2, 1, 0, 0, true},
    {"purge-own", "purge", "open; own; close | take; take", 3, 1, 0, 0, true},
    {"purge-own-lazy", "purge", "open; own; close | offer 1; offer 0", 3, 1, 0, 0, true},
    {"purge-revoke", "purge", "open; close; open | revoke; revoke", 2, 1, 0, 0, true},
    {"purge-decline", "purge", "decline; use | use | take", 2, 1, 0, 0, true},
    {"purge-refused", "purge", "use; use | take; take", 2, 1, 0, 0, true, 2},
    {"purge-lazy-refused", "purge", "use; use | offer 1; offer 2; take", 2, 1, 0, 0, true, 2},
    {"purge-open-refused", "purge", "open; own; close; open | take; offer 1", 2, 1, 0, 0, true, 1},
    {"purge-stopped", "purge", "use; use | take; offer 1 | use", 1, 1, 1, 0, true},
    {"table", "table", "put 0 1; put 1 2; get 0 | put 0 2; remove 0; get 1", 2, 2, 1, 0, true},
};

const oppx_world *checked_worlds(size_t *count) {
    *count = sizeof(worlds) / sizeof(worlds[0]);
    return worlds;
}

int checked_explore_world(oppx *explorer, const oppx_world *world, oppx_budget budget, oppx_figures *figures,
                          oppx_finding *finding) {
    const oppx_target *target = checked_target_named(world->target);
    oppx_program program;
    char error[OPPX_TEXT];
    if (target == NULL || oppx_program_parse(target, world->program, &program, error) != 0) return -EINVAL;
    oppx_bounds bounds = {world->preemptions, world->stale, world->stalls, world->early, world->refusals};
    oppx_exhaust(explorer, target, &program, bounds, budget, figures, finding);
    return 0;
}
