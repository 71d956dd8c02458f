# memtrace: where GPU memory goes, to the byte.
#
#   make            builds ./memtrace
#   make run        sets a fresh machine up, runs the main job, draws the charts
#   make test       sets up, builds and runs all tests
#   make install    to PREFIX (/usr/local), under DESTDIR; make uninstall
#
# Variables: CC, CFLAGS, WERROR=1 (a warning is an error), CUDA=0 (leaves the CUDA back end out),
# MEMTRACE_SHARED (test data), V=1 (shows the commands). Without -j as many jobs as there are cores.

ifeq ($(origin CC),default)
CC       := gcc
endif
OPT      ?= -O3 -g
WERROR   ?= 0
ERRORS   := $(filter-out 0,$(WERROR))
WARN     := -Wall -Wextra $(if $(ERRORS),-Werror)
CPPFLAGS += -D_GNU_SOURCE -I. -MMD -MP -MT$@
CFLAGS   += -std=c11 $(OPT) $(WARN) -pthread -fno-math-errno -ffp-contract=off
LDLIBS   += -ljansson -lsqlite3 -lpcre2-8 -lz -lzstd -lm -ldl
PREFIX   ?= /usr/local
BUILD    ?= build

# jemalloc from its archive, with six calls under names of our own and all else invisible: its malloc
# must not become the program's.
JEMALLOC_A ?= $(firstword $(wildcard /usr/lib/*/libjemalloc_pic.a))
JEMALLOC_CALLS := mallctl mallctlnametomib mallctlbymib mallocx dallocx nallocx
ifneq ($(JEMALLOC_A),)
CPPFLAGS += -DMT_JEMALLOC
JEMALLOC := $(BUILD)/jemalloc.o
endif

DIRS     := base alloc alloc/torch kernels/cpu kernels/none kernels/timed engine engine/kv engine/checkpoint engine/text \
            predict traces reports cli
SOURCES  := $(foreach d,$(DIRS),$(wildcard $(d)/*.c))
OBJECTS  := $(SOURCES:%.c=$(BUILD)/%.o)
LIBRARY  := $(BUILD)/libmemtrace.a
UNITS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
TESTS    := $(UNITS)
PROGRAM  ?= memtrace
RUN      := $(if $(filter /%,$(PROGRAM)),,./)$(PROGRAM)
Q        := $(if $(V),,@)

# One line per file; V=1 shows the commands. Every file appears whole: two builds may run in one folder.
comma    := ,
say       = @printf '  %-5s %s\n' $(1) $@
WHOLE     = $(Q)sh tools/whole.sh $@

# As many jobs as there are cores, unless -j or the make that called this one says how many.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(or $(shell nproc),1)
endif

.PHONY: all cuda standin emulated no-emulation gpu-tests deps run plots test check check-soon sanitize asan ubsan \
        valgrind walk fuzz fuzz-programs oracle bench lab peers install uninstall format clean
.DEFAULT_GOAL := all
.SECONDARY:

all: $(PROGRAM) cuda

$(PROGRAM): $(BUILD)/cli/main.o $(LIBRARY)
	$(call say,LINK)
	$(WHOLE) $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(LIBRARY): $(filter-out $(BUILD)/cli/main.o,$(OBJECTS)) $(JEMALLOC)
	$(WHOLE) $(AR) rcs $@ $^

$(BUILD)/jemalloc-all.o: $(JEMALLOC_A)
	$(call say,LD)
	$(WHOLE) $(LD) -r $(JEMALLOC_CALLS:%=-u %) -o $@ $<

$(BUILD)/jemalloc.o: $(BUILD)/jemalloc-all.o
	$(WHOLE) objcopy $(foreach c,$(JEMALLOC_CALLS),--redefine-sym $(c)=mt_je_$(c) --keep-global-symbol=mt_je_$(c)) $< $@

$(BUILD)/%.o: %.c
	$(call say,CC)
	$(WHOLE) $(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(LIBRARY)
	$(call say,LINK)
	$(WHOLE) $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# What the fuzzer drives (tests/fuzz/targets.h): test_fuzz runs it on the kept inputs, `make fuzz` on new
# ones, FUZZ_SECONDS each.
FUZZ         := pickle snapshot oom rmm stalloc minimalloc allocatorsim chrome pprof nsight trace mtb schedule recording
FUZZ_OBJECTS := $(FUZZ:%=$(BUILD)/tests/fuzz/%.o)
FUZZ_SECONDS ?= 60

$(BUILD)/tests/test_fuzz: $(BUILD)/tests/test_fuzz.o $(FUZZ_OBJECTS) $(LIBRARY)
	$(call say,LINK)
	$(WHOLE) $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

$(BUILD)/fuzz-%: tests/fuzz/main.c $(BUILD)/tests/fuzz/%.o $(LIBRARY)
	$(call say,LINK)
	$(WHOLE) $(CC) $(CPPFLAGS) $(CFLAGS) -DMT_FUZZ=mt_fuzz_$* -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

fuzz-programs: $(FUZZ:%=$(BUILD)/fuzz-%)

fuzz:
	@$(MAKE) --no-print-directory fuzz-programs BUILD=build/fuzz CC=clang \
	  OPT="-O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"
	@for t in $(FUZZ); do sh tests/fuzz/run.sh build/fuzz/fuzz-$$t $$t $(FUZZ_SECONDS) || exit 1; done

# ---- the CUDA back end: a shared object beside the program -------------------------------------

CUDA_BACKEND := $(dir $(PROGRAM))memtrace-cuda.so
CUDA_SOURCES := $(wildcard kernels/cuda/*.cu)
NVCC      ?= $(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
CUDA_DIRS := $(CUDA_HOME) $(CUDA_HOME)/targets/$(shell uname -m)-linux
CUBLAS_H  := $(firstword $(wildcard $(CUDA_DIRS:%=%/include/cublas_v2.h)))
CUBLAS_SO := $(firstword $(wildcard $(foreach d,lib64 lib,$(CUDA_DIRS:%=%/$(d)/libcublas.so))))
NVCC_OLD   = $(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' | \
               awk '{ if ($$1 < 12 || ($$1 == 12 && $$2 < 5)) print "nvcc " $$1 "." $$2 " is older than 12.5" }')
HAVE_CXX  := $(shell command -v $(CXX))
CUDA_MISSING := $(if $(filter 0,$(CUDA)),CUDA=0,$(if $(NVCC),$(if $(CUBLAS_H),$(if $(CUBLAS_SO),$(if \
                  $(HAVE_CXX),$(NVCC_OLD),no C++ compiler$(comma) which nvcc needs),no libcublas.so),no \
                  cublas_v2.h),no nvcc))

# sm_80, 86, 89, 90, and PTX for what comes after.
CUDA_ARCHS ?= 80 86 89 90
NVCCFLAGS += -std=c++17 -O3 -lineinfo -I. -D_GNU_SOURCE $(if $(ERRORS),-Werror all-warnings) \
             -Xcompiler -Wall,-Wextra,$(if $(ERRORS),-Werror$(comma))-fPIC $(foreach a,$(CUDA_ARCHS),-gencode \
             arch=compute_$(a),code=sm_$(a)) -gencode \
             arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS))
CUDA_BASE := status text array # what it needs of base/
CUDA_OBJECTS := $(CUDA_SOURCES:kernels/cuda/%.cu=$(BUILD)/cuda/%.o) $(CUDA_BASE:%=$(BUILD)/cuda/%.o)

ifeq ($(CUDA_MISSING),)
cuda: $(CUDA_BACKEND)
else
cuda:
	@echo "  the CUDA back end is left out: $(strip $(CUDA_MISSING))"
endif

$(BUILD)/cuda/%.o: kernels/cuda/%.cu
	$(call say,NVCC)
	$(WHOLE) $(NVCC) $(NVCCFLAGS) -MMD -MP -MT=$@ -c -o $@ $<

$(CUDA_BASE:%=$(BUILD)/cuda/%.o): $(BUILD)/cuda/%.o: base/%.c
	$(WHOLE) $(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -c -o $@ $<

$(CUDA_BACKEND): $(CUDA_OBJECTS)
	$(call say,LINK)
	$(WHOLE) $(NVCC) -shared -cudart shared -o $@ $^ -L$(dir $(CUBLAS_SO)) -lcublas -ldl \
	  -Xlinker -rpath,$(patsubst %/,%,$(dir $(CUBLAS_SO)))

# The same tests on a real device, for tests/gpu.sh.
GPU_TESTS := $(BUILD)/gpu/test_cuda_kernels $(BUILD)/gpu/test_cuda_engine

gpu-tests: $(GPU_TESTS)

$(BUILD)/gpu/%.o: tests/cuda/%.c
	$(call say,CC)
	$(WHOLE) $(CC) $(CPPFLAGS) $(CFLAGS) -DMT_REAL_DEVICE -c -o $@ $<

$(GPU_TESTS): %: %.o $(CUDA_OBJECTS) $(LIBRARY)
	$(call say,LINK)
	$(WHOLE) $(CXX) $(OPT) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS) \
	  -L$(dir $(CUBLAS_SO)) -Wl,-rpath,$(patsubst %/,%,$(dir $(CUBLAS_SO))) -lcublas -lcudart -ldl

# A device that only accounts for memory, for the program that nvcc built: preloaded libraries.
ifeq ($(CUDA_MISSING),)
STANDIN    := $(BUILD)/standin
CUDA_MAJOR := $(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
STANDINS   := $(foreach l,cudart.so.$(CUDA_MAJOR) cublas.so.$(CUDA_MAJOR) cuda.so.1,$(STANDIN)/lib$(l))
CUDA_CHECKS += standin
export MEMTRACE_STANDIN := $(STANDIN)

standin: $(STANDIN)/preload

$(STANDIN)/preload: $(STANDINS)
	$(WHOLE) printf '%s:%s:%s\n' $(abspath $(STANDINS))

$(STANDIN)/lib%.map:
	$(WHOLE) printf 'lib%s { global: *; };\n' $*

STANDIN_C = $(WHOLE) $(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARN) -fPIC -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^)

$(STANDIN)/libcuda.so.1: tests/cuda_standin/cuda.c tests/cuda_standin/standin.h
	$(call say,CC)
	$(STANDIN_C)

$(STANDIN)/lib%.so.$(CUDA_MAJOR): tests/cuda_standin/%.c tests/cuda_standin/standin.h $(STANDIN)/lib%.so.$(CUDA_MAJOR).map
	$(call say,CC)
	$(STANDIN_C) -I$(dir $(CUBLAS_H)) -Wl,--version-script,$(filter %.map,$^)
endif

# ---- the emulated device ------------------------------------------------------------------------

# The emulated CUDA device and its own tests, where there is a C++ compiler.
CUDA_TESTS := $(patsubst tests/cuda/%.c,$(BUILD)/tests/%,$(wildcard tests/cuda/test_*.c))
EMULATION := $(patsubst %.cc,$(BUILD)/%.o,$(wildcard tests/cuda_emulation/*.cc))
ifneq ($(HAVE_CXX),)
TESTS     += $(BUILD)/tests/test_emulation $(CUDA_TESTS)
CUDA_CHECKS += emulated
else
CUDA_CHECKS += no-emulation
endif

no-emulation:
	@echo "  the emulated device and its tests are left out: no C++ compiler ($(CXX))"

$(BUILD)/tests/cuda_emulation/%.o: tests/cuda_emulation/%.cc
	$(call say,CXX)
	$(WHOLE) $(CXX) -std=c++17 $(OPT) $(WARN) -Itests/cuda_emulation/include -I. -MMD -MP -MT$@ -c -o $@ $<

$(BUILD)/tests/test_emulation: $(EMULATION)
	$(call say,LINK)
	$(WHOLE) $(CXX) $(OPT) $(LDFLAGS) -o $@ $^ -lcmocka -lopenblas -lpthread

# The back end on that device: linked into memtrace-emulated and into the tests of tests/cuda.
EMULATOR := $(filter-out $(BUILD)/tests/cuda_emulation/test_%.o,$(EMULATION))
EMULATED := $(CUDA_SOURCES:kernels/cuda/%.cu=$(BUILD)/emulated/%.o)

emulated: $(PROGRAM)-emulated

$(BUILD)/emulated/%.o: kernels/cuda/%.cu
	$(call say,CXX)
	$(WHOLE) $(CXX) -x c++ -std=c++17 $(OPT) $(WARN) -ffp-contract=off -D_GNU_SOURCE \
	  -Itests/cuda_emulation/include -I. -MMD -MP -MT$@ -c -o $@ $<

$(BUILD)/emulated/backend.o: cli/backend.c
	$(call say,CC)
	$(WHOLE) $(CC) $(CPPFLAGS) $(CFLAGS) -DMT_EMULATED -c -o $@ $<

$(PROGRAM)-emulated: $(BUILD)/cli/main.o $(BUILD)/emulated/backend.o $(EMULATED) $(EMULATOR) $(LIBRARY)
	$(call say,LINK)
	$(WHOLE) $(CXX) $(OPT) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lopenblas -lpthread

$(BUILD)/tests/cuda/%.o: tests/cuda/%.c
	$(call say,CC)
	$(WHOLE) $(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(CUDA_TESTS): $(BUILD)/tests/%: $(BUILD)/tests/cuda/%.o $(EMULATED) $(EMULATOR) $(LIBRARY)
	$(call say,LINK)
	$(WHOLE) $(CXX) $(OPT) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS) -lopenblas -lpthread

# ---- setting up --------------------------------------------------------------------------------

deps:
	@sh tools/deps.sh

# ---- the main job --------------------------------------------------------------------------------

run:
	@sh tools/deps.sh build draw
	@$(MAKE) --no-print-directory plots

plots: all
	sh tools/run.sh $(RUN) out

# ---- tests ------------------------------------------------------------------------------------------

test: deps
	@$(MAKE) --no-print-directory check

# A library that makes allocations of the program fail, and the driver that does so with each.
MALLOC_FAILURE := $(BUILD)/malloc_failure/preload.so $(BUILD)/malloc_failure/drive

$(BUILD)/malloc_failure/%.so: tests/malloc_failure/%.c
	$(call say,CC)
	$(WHOLE) $(CC) -std=c11 -D_GNU_SOURCE -O1 -g $(WARN) -fPIC -shared -o $@ $<

$(BUILD)/malloc_failure/%: tests/malloc_failure/%.c
	$(call say,CC)
	$(WHOLE) $(CC) -std=c11 -D_GNU_SOURCE -O1 -g $(WARN) -o $@ $<

check: all $(TESTS) $(CUDA_CHECKS) $(MALLOC_FAILURE)
	@sh tests/run.sh $(BUILD) $(RUN) $(TESTS)

# The C tests, and the scripts that are quick and say most of the program.
SOON := $(foreach n,dry_real generate identity limits optimum plots_command predict replay run tokenize verify,tests/cli_$n.sh)

check-soon: $(PROGRAM) $(UNITS)
	@SCRIPTS="$(SOON)" sh tests/run.sh $(BUILD) $(RUN) $(UNITS)

# The same tests under other watchers, each with a build folder of its own. sanitize: those above, under
# two watchers at once, in three minutes.
AGAIN = @ASAN_OPTIONS=allocator_may_return_null=1 $(MAKE) --no-print-directory WERROR=1 MEMTRACE_QUICK=1 \
        BUILD=build/$@ PROGRAM=build/$@/memtrace

sanitize:
	$(AGAIN) check-soon OPT="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" \
	  LDFLAGS="-fsanitize=address,undefined"

asan:
	$(AGAIN) check OPT="-O1 -g -fsanitize=address -fno-omit-frame-pointer" LDFLAGS="-fsanitize=address"

ubsan:
	$(AGAIN) check OPT="-O1 -g -fsanitize=undefined -fno-sanitize-recover=all" LDFLAGS="-fsanitize=undefined"

valgrind: deps
	$(AGAIN) check OPT="-O1 -g" WATCH="valgrind -q --error-exitcode=99 --leak-check=full \
	  --errors-for-leak-kinds=definite,indirect,possible --suppressions=tests/valgrind.supp"

# Walks all segments after every event and compares with the ledger.
walk:
	$(AGAIN) check OPT="-O2 -g -DMT_WALK"

# The charts' scripts, wherever the program is built.
MEMTRACE_PLOTS ?= $(CURDIR)/plots
export MEMTRACE_PLOTS
MEMTRACE_SHARED ?= ../shared
export MEMTRACE_SHARED
ifdef MEMTRACE_QUICK
export MEMTRACE_QUICK
endif
ifdef WATCH
export WATCH
endif

# ---- the rest ------------------------------------------------------------------------------------------

# Records new runs of the real PyTorch on a simulated device, and compares (a virtual environment of
# some GB in build/oracle).
oracle: $(PROGRAM)
	@MEMTRACE=$(RUN) sh tests/oracle/live.sh

BENCHES := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/bench_*.c))

bench: all $(BENCHES)
	@sh tests/bench.sh $(BUILD) $(RUN)

# Every chart of docs/allocators.md, from data made now.
lab: $(PROGRAM)
	@sh tools/lab.sh $(RUN) out/lab

# Other CPU inference programs in a virtual environment (some GB in build/peers), and memtrace among them.
peers: all $(BUILD)/tests/bench_read
	@sh tests/peers/setup.sh
	@BUILD=$(BUILD) MEMTRACE=$(RUN) python3 tests/peers/bench.py
	@$(RUN) plot peers build/peers/peers.dat build/peers/peers.png

# ---- installing -----------------------------------------------------------------------------------------

# The man page and the completion are made from what the program says of itself.
$(BUILD)/memtrace.1 $(BUILD)/memtrace.bash: $(BUILD)/memtrace.%: tools/from_help.sh $(PROGRAM) $(wildcard tools/*.awk)
	$(WHOLE) sh $< $* $(RUN)

AT         = $(DESTDIR)$(PREFIX)
COMPLETION = $(AT)/share/bash-completion/completions/memtrace

install: all $(BUILD)/memtrace.1 $(BUILD)/memtrace.bash
	install -D -m 755 $(PROGRAM) $(AT)/bin/memtrace
	$(if $(CUDA_MISSING),,install -D -m 755 $(CUDA_BACKEND) $(AT)/lib/memtrace/memtrace-cuda.so)
	install -d $(AT)/share/memtrace/plots
	install -m 644 plots/*.gp plots/*.awk $(AT)/share/memtrace/plots
	install -D -m 644 $(BUILD)/memtrace.1 $(AT)/share/man/man1/memtrace.1
	install -D -m 644 $(BUILD)/memtrace.bash $(COMPLETION)

uninstall:
	rm -rf $(AT)/bin/memtrace $(AT)/lib/memtrace $(AT)/share/memtrace $(AT)/share/man/man1/memtrace.1 $(COMPLETION)

# ---- one style --------------------------------------------------------------------------------------------

# clang-format 14 and tools/format.awk; tests/cli_style.sh checks them, and the order of includes.
STYLED = $(shell find . -path ./build -prune -o -name '*.[ch]' -print -o -name '*.c[cu]' -print)

format:
	@clang-format -i $(STYLED)
	@for f in $(STYLED); do awk -f tools/format.awk "$$f" >$(BUILD)/formatted && \
	  { cmp -s $(BUILD)/formatted "$$f" || cat $(BUILD)/formatted >"$$f"; }; done

clean:
	rm -rf build memtrace memtrace-emulated memtrace-cuda.so out .whole.*

-include $(OBJECTS:.o=.d) $(EMULATION:.o=.d) $(CUDA_OBJECTS:.o=.d) $(EMULATED:.o=.d) $(wildcard $(BUILD)/tests/cuda/*.d $(BUILD)/tests/fuzz/*.d $(BUILD)/tests/*.d $(BUILD)/gpu/*.d)
