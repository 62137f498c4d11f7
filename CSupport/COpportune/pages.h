/*
 * The kernel calls for purgeable regions. The checked build has its own, in COpportuneChecked/purge.c, where
 * a page is two words and the program says when the kernel takes pages.
 */
#ifndef OPP_PAGES_H
#define OPP_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* The size of a page. */
size_t opp_pages_size(void);

/* Maps zeroed memory in whole pages; a page is allocated only when it is written, and is never a huge one.
 * NULL, and errno, where there is none. */
void *opp_pages_map(size_t bytes);
void opp_pages_unmap(void *memory, size_t bytes);

/* Gives the pages back to the kernel, also those that are locked into memory: on return all read as zero.
 * 0; 1 where some were locked; or -errno. */
int opp_pages_drop(void *memory, size_t bytes);

/* Lets the kernel take each page at any time until it is written again; a page that was taken reads as zero.
 * 0 or -errno. */
int opp_pages_offer(void *memory, size_t bytes);

/* Takes the page of `word`, which is not zero, back from the kernel. Returns whether the kernel had not taken
 * it yet. */
_Bool opp_pages_keep(uint64_t *word);

#endif
