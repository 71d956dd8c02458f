# memtrace: where GPU memory goes, to the byte.
#
#   make            builds ./memtrace
#   make run        sets a fresh machine up, runs the main job, draws the charts
#   make test       sets up, builds and runs all tests
#
# Variables: CC, CFLAGS, PREFIX, CUDA=0 (leaves the CUDA back end out), MEMTRACE_SHARED (test data).

ifeq ($(origin CC),default)
CC       := gcc
endif
OPT      ?= -O3 -g
WARN     := -Wall -Wextra -Werror
CPPFLAGS += -D_GNU_SOURCE -I. -MMD -MP
CFLAGS   += -std=c11 $(OPT) $(WARN) -fopenmp -fno-math-errno -ffp-contract=off
LDLIBS   += -lopenblas -ljansson -lpcre2-8 -lz -lzstd -lm
PREFIX   ?= /usr/local
BUILD    ?= build

DIRS     := base alloc kernels/cpu kernels/none engine reports cli
SOURCES  := $(foreach d,$(DIRS),$(wildcard $(d)/*.c))
OBJECTS  := $(SOURCES:%.c=$(BUILD)/%.o)
LIBRARY  := $(BUILD)/libmemtrace.a
TESTS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
PROGRAM  ?= memtrace
Q        := $(if $(V),,@)

# One line per file; V=1 shows the commands.
say       = @printf '  %-5s %s\n' $(1) $@

.PHONY: all run test check deps plots asan ubsan valgrind walk bench install clean format
.DEFAULT_GOAL := all
.SECONDARY:

all: $(PROGRAM)

$(PROGRAM): $(BUILD)/cli/main.o $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(LIBRARY): $(filter-out $(BUILD)/cli/main.o,$(OBJECTS))
	$(Q)rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/%.o: %.c
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# The emulated CUDA device and its own tests, where there is a C++ compiler.
EMULATION := $(patsubst %.cc,$(BUILD)/%.o,$(wildcard tests/cuda_emulation/*.cc))
ifneq ($(shell command -v $(CXX)),)
TESTS     += $(BUILD)/tests/test_emulation
endif

$(BUILD)/tests/cuda_emulation/%.o: tests/cuda_emulation/%.cc
	$(call say,CXX)
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 $(OPT) $(WARN) -Itests/cuda_emulation/include -I. -MMD -MP -c -o $@ $<

$(BUILD)/tests/test_emulation: $(EMULATION)
	$(call say,LINK)
	$(Q)$(CXX) $(OPT) $(LDFLAGS) -o $@ $^ -lcmocka -lopenblas -lpthread

# ---- setting up --------------------------------------------------------------------------------

deps:
	@sh tools/deps.sh

# ---- the main job --------------------------------------------------------------------------------

run: deps
	@$(MAKE) --no-print-directory all
	sh tools/run.sh

plots: all
	sh tools/run.sh

# ---- tests ------------------------------------------------------------------------------------------

test: deps
	@$(MAKE) --no-print-directory check

check: all $(TESTS)
	@sh tests/run.sh $(BUILD) ./$(PROGRAM) $(TESTS)

# The same tests under other watchers. Each has a build folder of its own.
asan:
	@$(MAKE) --no-print-directory check BUILD=build/asan PROGRAM=build/asan/memtrace MEMTRACE_QUICK=1 \
	  OPT="-O1 -g -fsanitize=address -fno-omit-frame-pointer" LDFLAGS="-fsanitize=address"

ubsan:
	@$(MAKE) --no-print-directory check BUILD=build/ubsan PROGRAM=build/ubsan/memtrace MEMTRACE_QUICK=1 \
	  OPT="-O1 -g -fsanitize=undefined -fno-sanitize-recover=all" LDFLAGS="-fsanitize=undefined"

valgrind:
	@sh tools/deps.sh valgrind
	@$(MAKE) --no-print-directory check BUILD=build/valgrind PROGRAM=build/valgrind/memtrace MEMTRACE_QUICK=1 OPT="-O1 -g" \
	  WATCH="valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect,possible --suppressions=tests/valgrind.supp"

# Walks all segments after every event and compares with the ledger.
walk:
	@$(MAKE) --no-print-directory check BUILD=build/walk PROGRAM=build/walk/memtrace MEMTRACE_QUICK=1 OPT="-O2 -g -DMT_WALK"

MEMTRACE_SHARED ?= ../shared
export MEMTRACE_SHARED
ifdef MEMTRACE_QUICK
export MEMTRACE_QUICK
endif
ifdef WATCH
export WATCH
endif

# ---- the rest ------------------------------------------------------------------------------------------

bench: all $(BUILD)/tests/bench_alloc
	@sh tests/bench.sh $(BUILD) ./$(PROGRAM)

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/memtrace/plots
	install -m 755 memtrace $(DESTDIR)$(PREFIX)/bin/memtrace
	install -m 644 plots/*.gp plots/*.awk plots/*.sh $(DESTDIR)$(PREFIX)/share/memtrace/plots

format:
	clang-format -i $(foreach d,$(DIRS) tests kernels,$(wildcard $(d)/*.[ch]))

clean:
	rm -rf build memtrace out

-include $(OBJECTS:.o=.d) $(EMULATION:.o=.d) $(wildcard $(BUILD)/tests/*.d)
