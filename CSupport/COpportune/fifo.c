/* The fifo of one producer: creation, growth and end. The path of an entry is in fifo.h. */
#include "fifo.h"

#include <stdlib.h>
#include <string.h>

static opp_directory *directory_create(uint64_t count, opp_directory *older) {
    opp_directory *directory = calloc(1, sizeof(opp_directory) + count * sizeof(directory->segment[0]));
    if (directory == NULL) return NULL;
    OPP_ASSERT(count != 0);
    OPP_ASSERT((count & (count - 1)) == 0); /* entries are found by masking */
    directory->mask = count - 1;
    directory->older = older;
    return directory;
}

opp_fifo *opp_fifo_create(opp_producer *producer) {
    opp_fifo *fifo = aligned_alloc(OPP_LINE, sizeof(opp_fifo));
    if (fifo == NULL) return NULL;
    memset(fifo, 0, sizeof(*fifo));
    opp_directory *directory = directory_create(OPP_DIRECTORY_FIRST, NULL);
    if (directory == NULL) {
        free(fifo);
        return NULL;
    }
    fifo->producer = producer;
    atomic_init(&fifo->directory, directory);
    return fifo;
}

void opp_fifo_free(opp_fifo *fifo) {
    opp_directory *directory = opp_load(&fifo->directory, relaxed); /* relaxed: no other user is left */
    while (directory != NULL) {
        opp_directory *older = directory->older;
        free(directory);
        directory = older;
    }
    free(fifo);
}

/* Makes room in the directory for the segment of index `tail`. Returns the directory; NULL where memory is
 * short. */
static opp_directory *fifo_reserve(opp_fifo *fifo, uint64_t tail) {
    opp_directory *directory = opp_load(&fifo->directory, relaxed); /* relaxed: the producer's own field */
    /* relaxed: an old head only makes the directory grow early. An entry may be overwritten once its index
     * lies below any value of head: by B3 no thread can claim it any more. */
    uint64_t head = opp_load(&fifo->head, relaxed);
    uint64_t first = SEGMENT_OF(head), number = SEGMENT_OF(tail);
    OPP_ASSERT(head <= tail);                                   /* B1 */
    if (number - first <= directory->mask) return directory;
    opp_directory *larger = directory_create((directory->mask + 1) * 2, directory);
    if (larger == NULL) return NULL;
    OPP_ASSERT(number - first <= larger->mask);
    for (uint64_t i = first; i < number; i++) {
        opp_segment *segment = opp_load(&directory->segment[i & directory->mask], relaxed);
        opp_store(&larger->segment[i & larger->mask], segment, relaxed);
    }
    /* [directory] release: its entries are set. Pairs with the acquire in fifo_peek(). */
    opp_store(&fifo->directory, larger, release);
    return larger;
}

bool opp_fifo_extend(opp_fifo *fifo, opp_segments *segments, uint64_t tail) {
    OPP_ASSERT(SLOT_OF(tail) == 0); /* B5 */
    opp_directory *directory = fifo_reserve(fifo, tail);
    if (directory == NULL) return false;
    opp_segment *segment = opp_segments_take(segments);
    if (segment == NULL) return false;
    /* [entry] release: pairs with the acquire in fifo_peek(). A late reader that has not seen the tail of
     * this segment may still read the entry and then the segment's slots; they are mapped. */
    opp_store(&directory->segment[SEGMENT_OF(tail) & directory->mask], segment, release);
    fifo->filling = segment; /* B5 */
    return true;
}
