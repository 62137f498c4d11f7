/*
 * What purgeable regions ask of the kernel. The checked build has its own, in COpportuneChecked/purge.c,
 * where a page is two words and the kernel takes pages when the program says so.
 */
#ifndef OPP_PAGES_H
#define OPP_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* The size of a page. */
size_t opp_pages_size(void);

/* Zero memory, a page only where it is written, and never a huge one. Whole pages; NULL, and errno, where
 * there is none. */
void *opp_pages_map(size_t bytes);
void opp_pages_unmap(void *memory, size_t bytes);

/* Gives the pages back, also where somebody has locked them into memory: they are zero on return. 0 or
 * -errno. */
int opp_pages_drop(void *memory, size_t bytes);

/* Lets the kernel take any of the pages, which is then zero, until that page is written. 0 or -errno. */
int opp_pages_offer(void *memory, size_t bytes);

/* Takes the page of `word`, which is not zero, back from the kernel. Whether the kernel had not taken it
 * yet. */
_Bool opp_pages_keep(uint64_t *word);

#endif
