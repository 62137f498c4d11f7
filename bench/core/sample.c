#include "sample.h"

#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(const double *values, unsigned count) {
    double sorted[REPEATS_MAX];
    memcpy(sorted, values, count * sizeof(double));
    qsort(sorted, count, sizeof(double), ascending);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static double lowest(const row *row, unsigned count) {
    double value = row->sample[0];
    for (unsigned i = 1; i < count; i++)
        if (row->sample[i] < value) value = row->sample[i];
    return value;
}

static double highest(const row *row, unsigned count) {
    double value = row->sample[0];
    for (unsigned i = 1; i < count; i++)
        if (row->sample[i] > value) value = row->sample[i];
    return value;
}

/* The rival with the lowest median: the lock-free ones alone, if there is any. NULL where there is no
 * rival. */
static const row *best_rival(const table *table) {
    const row *best = NULL;
    for (int strict = 1; strict >= 0 && best == NULL; strict--)
        for (unsigned i = 0; i < table->rows; i++) {
            const row *row = &table->row[i];
            if (row->is_ours || (strict && !row->is_lock_free)) continue;
            if (best == NULL || median(row->sample, table->repeats) < median(best->sample, table->repeats))
                best = row;
        }
    return best;
}

static double ratio_to(const table *table, const row *row, const struct row *rival) {
    double ratios[REPEATS_MAX];
    for (unsigned i = 0; i < table->repeats; i++) ratios[i] = row->sample[i] / rival->sample[i];
    return median(ratios, table->repeats);
}

void table_print(const table *table) {
    const row *rival = best_rival(table);
    printf("\n%s, ns per %s\n", table->title, table->unit);
    printf("%-26s %9s %9s %9s %9s", "", "median", "min", "max", rival != NULL ? "x rival" : "");
    printf(table->is_queue ? "  lock-free\n" : "\n");
    for (unsigned i = 0; i < table->rows; i++) {
        const row *row = &table->row[i];
        printf("%-26s %9.1f %9.1f %9.1f", row->name, median(row->sample, table->repeats),
               lowest(row, table->repeats), highest(row, table->repeats));
        if (rival != NULL) printf(" %9.2f", ratio_to(table, row, rival));
        if (table->is_queue) printf("  %-3s  %s", row->is_lock_free ? "yes" : "no", row->why);
        printf("\n");
    }
    if (table->is_queue && rival != NULL)
        printf("rival: %s, the best%s one\n", rival->name, rival->is_lock_free ? " lock-free" : "");
    const row *ours = &table->row[0];
    double value = median(ours->sample, table->repeats);
    if (table->aim_ns > 0)
        printf("aim: at most %.0f ns: %s\n", table->aim_ns, value <= table->aim_ns ? "met" : "MISSED");
    if (table->aim_ratio > 0 && rival != NULL)
        printf("aim: at most %.2f x the rival: %s\n", table->aim_ratio,
               ratio_to(table, ours, rival) <= table->aim_ratio ? "met" : "MISSED");
    fflush(stdout);
}

void table_json(const table *table, FILE *file) {
    const row *rival = best_rival(table);
    fprintf(file, "{\"title\":\"%s\",\"operation\":\"%s\",\"aim_ns\":%g,\"aim_ratio\":%g,\"rows\":[",
            table->title,
            table->unit, table->aim_ns, table->aim_ratio);
    for (unsigned i = 0; i < table->rows; i++) {
        const row *row = &table->row[i];
        fprintf(file, "%s{\"contender\":\"%s\",\"ns\":{\"median\":%.2f,\"min\":%.2f,\"max\":%.2f}",
                i ? "," : "", row->name,
                median(row->sample, table->repeats), lowest(row, table->repeats),
                highest(row, table->repeats));
        if (rival != NULL) fprintf(file, ",\"ratio\":%.4f", ratio_to(table, row, rival));
        if (table->is_queue) fprintf(file, ",\"lock_free\":%s", row->is_lock_free ? "true" : "false");
        fprintf(file, "}");
    }
    fprintf(file, "]}");
}
