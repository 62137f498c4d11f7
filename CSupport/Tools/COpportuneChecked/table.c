/*
 * Target table. Promised is little: a value that comes out was put in for that key, not later; one thread
 * alone finds what it put, until it is driven out.
 */
#include "checked.h"

CHECKED_CORE_BEGIN
#include "../../COpportune/table.c"
CHECKED_CORE_END

enum { KEYS = 6, TABLE_PUT = 0, TABLE_GET, TABLE_REMOVE };

static const oppx_kind table_kinds[] = {
    {.name = "put", .arguments = 2, .limit = {KEYS, 16}, .weight = 4},
    {.name = "get", .arguments = 1, .limit = {KEYS}, .weight = 4},
    {.name = "remove", .arguments = 1, .limit = {KEYS}, .weight = 1},
};

typedef struct table_run_state {
    opp_table *table;
    uint64_t values[OPPX_THREADS * OPPX_OPERATIONS];
    uint32_t put_count, threads;
    uint64_t alone[KEYS]; /* what one thread alone must find, or nothing */
} table_run_state;
static _Thread_local table_run_state *table_run_of_thread; /* see oppx_state() */
#define table_run (*table_run_of_thread)

static void table_setup(const oppx_program *program) {
    table_run_of_thread = oppx_state(OPPX_STATE_TARGET, sizeof(table_run_state));
    table_run.table = opp_table_create(4);
    table_run.put_count = 0;
    table_run.threads = program->threads;
    memset(table_run.alone, 0, sizeof(table_run.alone));
}

static uint64_t table_value(uint32_t thread, const oppx_operation *operation) {
    return (uint64_t)thread << 32 | (operation->argument[0] + 1u) << 8 | (operation->argument[1] + 1u);
}

static void table_perform(uint32_t thread, const oppx_operation *operation) {
    uint64_t key = operation->argument[0] + 1u;
    uint64_t *alone = &table_run.alone[operation->argument[0]];
    if (operation->kind == TABLE_PUT) {
        uint32_t number = table_run.put_count++;
        *alone = table_run.values[number] = table_value(thread, operation);
        opp_table_put(table_run.table, key, table_run.values[number]);
    } else if (operation->kind == TABLE_GET) {
        uint64_t value = opp_table_get(table_run.table, key);
        bool known = value == 0;
        for (uint32_t i = 0; i < table_run.put_count; i++) known |= table_run.values[i] == value;
        if (value != 0 && (value >> 8 & 0xFFFFFF) != key)
            oppx_fail("key %llu has another's value: %llx", (unsigned long long)key,
                      (unsigned long long)value);
        if (!known) oppx_fail("a value that nobody put: %llx", (unsigned long long)value);
        if (table_run.threads == 1 && value != *alone &&
            !(value == 0 && opp_table_evictions(table_run.table) > 0))
            oppx_fail("one thread alone put %llx and gets %llx", (unsigned long long)*alone,
                      (unsigned long long)value);
    } else {
        opp_table_remove(table_run.table, key);
        *alone = 0;
    }
}

static void table_finish(void) {
    if (opp_table_evictions(table_run.table) > table_run.put_count)
        oppx_fail("more keys are driven out than put in");
}

const oppx_target checked_table = {
    .name = "table",
    .summary = "The forgetful table: what comes out was put in for that key; one thread alone finds what it "
               "put.",
    .kinds = table_kinds, .kind_count = 3, .threads_max = 3, .operations_max = 10, .stalls = 1,
    .setup = table_setup, .perform = table_perform, .finish = table_finish,
};
