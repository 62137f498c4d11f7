/* Single operations, done a given number of times, for scripts/count-ops. */
#ifndef BENCH_OPERATIONS_H
#define BENCH_OPERATIONS_H

/* The exit status; says what is wrong on the standard error. */
int operation_run(const char *name, const char *number);
int operation_list(void);

#endif
