/* What this process gives back of its own memory. */
#include "opp_host.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Whether the loader has written into what is read only, as it does for old code. */
static int is_relocated(const struct dl_phdr_info *object, const ElfW(Phdr) *dynamic) {
    const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(object->dlpi_addr + dynamic->p_vaddr);
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_TEXTREL) return 1;
        if (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0) return 1;
    }
    return 0;
}

/* Called with the loader's lock, so nothing of it is unmapped meanwhile. What may not be written is as in the
   file; what is made read only once it is relocated is in a part that may be written. */
static int give_back(struct dl_phdr_info *object, size_t size, void *given) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size;
    /* The kernel's own, of no file; the name of the program itself is empty. */
    if (object->dlpi_name[0] != '\0' && strchr(object->dlpi_name, '/') == NULL) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_DYNAMIC && is_relocated(object, part)) return 0;
    }
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W) != 0) continue;
        uintptr_t begin = (object->dlpi_addr + part->p_vaddr) / page * page;
        uintptr_t end = object->dlpi_addr + part->p_vaddr + part->p_filesz;
        if (madvise((void *)begin, end - begin, MADV_DONTNEED) == 0) *(uint64_t *)given += end - begin;
    }
    return 0;
}

uint64_t opp_host_give_back_program(void) {
    uint64_t given = 0;
    dl_iterate_phdr(give_back, &given);
    return given;
}
