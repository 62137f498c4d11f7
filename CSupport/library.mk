# What the Makefiles of the C libraries share: versions, the files that say where a library is installed, and the installation.
# The including Makefile sets, before it includes this:
#
#     name      of the library, without lib
#     headers   the first has the version
#     prefix    of the version's macros in it
#     cmake     the name of the CMake package; empty where there is none
#     in        the folder of the files with @PLACES@, with a slash; empty for this one
#
# PREFIX, LIBDIR, DESTDIR and the tools are the user's; STRIP=true leaves the symbols in.

PREFIX ?= /usr/local
INCLUDEDIR ?= $(PREFIX)/include
LIBDIR ?= $(PREFIX)/lib
PKGCONFIGDIR ?= $(LIBDIR)/pkgconfig
CMAKEDIR ?= $(LIBDIR)/cmake/$(cmake)
CFLAGS ?= -O2 -g
AR ?= ar
LD ?= ld
OBJCOPY ?= objcopy
STRIP ?= strip
INSTALL ?= install

number = $(shell sed -n 's/^.define $(prefix)_VERSION_$(1) *//p' $(firstword $(headers)))
major := $(call number,MAJOR)
minor := $(call number,MINOR)
version := $(major).$(minor).$(call number,PATCH)
# The number in the soname. It grows with each release that breaks programs.
soversion := 0

link := lib$(name).so
shared := $(link).$(version)
soname := $(link).$(soversion)
archive := lib$(name).a
packages := $(if $(cmake),$(cmake)Config.cmake $(cmake)ConfigVersion.cmake)
made := $(addprefix $(BUILD)/,$(shared) $(archive) $(name).pc $(packages))

.PHONY: all install uninstall clean places
.DELETE_ON_ERROR:

all: $(made)
	@for file in $(BUILD)/$(shared) $(BUILD)/$(archive); do \
		size=$$(wc -c <$$file); printf '%s: %s bytes\n' "$$file" "$$size"; done

$(BUILD):
	mkdir -p $@

# Of the libraries in C: one object, whose symbols are local but for what the header declares, so that a program may link it
# beside another copy of the core.
define archive_of_one_object
	$(LD) -r $(objects) -o $(BUILD)/$(name).whole.o
	$(OBJCOPY) --localize-hidden $(BUILD)/$(name).whole.o
	$(STRIP) --strip-unneeded $(BUILD)/$(name).whole.o
	rm -f $@
	$(AR) rcs $@ $(BUILD)/$(name).whole.o
endef

# Written anew each time, since they say where things are installed.
$(BUILD)/%: $(in)%.in places | $(BUILD)
	@sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g' \
		-e 's|@VERSION@|$(version)|g' -e 's|@SOVERSION@|$(soversion)|g' -e 's|@MAJOR_MINOR@|$(major).$(minor)|g' \
		$< >$@

install: all
	$(INSTALL) -d $(DESTDIR)$(LIBDIR) $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(PKGCONFIGDIR) $(if $(cmake),$(DESTDIR)$(CMAKEDIR))
	$(INSTALL) -m 755 $(BUILD)/$(shared) $(DESTDIR)$(LIBDIR)/
	ln -sf $(shared) $(DESTDIR)$(LIBDIR)/$(soname)
	ln -sf $(soname) $(DESTDIR)$(LIBDIR)/$(link)
	$(INSTALL) -m 644 $(BUILD)/$(archive) $(DESTDIR)$(LIBDIR)/
	$(INSTALL) -m 644 $(headers) $(DESTDIR)$(INCLUDEDIR)/
	$(INSTALL) -m 644 $(BUILD)/$(name).pc $(DESTDIR)$(PKGCONFIGDIR)/
	$(if $(cmake),$(INSTALL) -m 644 $(addprefix $(BUILD)/,$(packages)) $(DESTDIR)$(CMAKEDIR)/)

uninstall:
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(shared) $(soname) $(link) $(archive)) \
		$(headers:include/%=$(DESTDIR)$(INCLUDEDIR)/%) $(DESTDIR)$(PKGCONFIGDIR)/$(name).pc \
		$(addprefix $(DESTDIR)$(CMAKEDIR)/,$(packages))
	$(if $(cmake),-@rmdir $(DESTDIR)$(CMAKEDIR) 2>/dev/null)

clean:
	rm -rf $(BUILD)
