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
LDLIBS   += -ljansson -lpcre2-8 -lz -lzstd -lm -ldl
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
TESTS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
PROGRAM  ?= memtrace
Q        := $(if $(V),,@)

# One line per file; V=1 shows the commands.
comma    := ,
say       = @printf '  %-5s %s\n' $(1) $@

.PHONY: lab peers oracle all cuda no-emulation emulated standin gpu-tests run test check deps plots asan ubsan valgrind walk bench install clean format
.DEFAULT_GOAL := all
.SECONDARY:

all: $(PROGRAM) cuda

$(PROGRAM): $(BUILD)/cli/main.o $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(LIBRARY): $(filter-out $(BUILD)/cli/main.o,$(OBJECTS)) $(JEMALLOC)
	$(Q)rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/jemalloc.o: $(JEMALLOC_A)
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(LD) -r $(JEMALLOC_CALLS:%=-u %) -o $@.all $<
	$(Q)objcopy $(foreach c,$(JEMALLOC_CALLS),--redefine-sym $(c)=mt_je_$(c) --keep-global-symbol=mt_je_$(c)) $@.all $@
	$(Q)rm -f $@.all

$(BUILD)/%.o: %.c
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

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
NVCCFLAGS += -std=c++17 -O3 -lineinfo -I. -D_GNU_SOURCE -Werror all-warnings \
             -Xcompiler -Wall,-Wextra,-Werror,-fPIC $(foreach a,$(CUDA_ARCHS),-gencode \
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
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(NVCCFLAGS) -MMD -MP -c -o $@ $<

$(CUDA_BASE:%=$(BUILD)/cuda/%.o): $(BUILD)/cuda/%.o: base/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -c -o $@ $<

$(CUDA_BACKEND): $(CUDA_OBJECTS)
	$(call say,LINK)
	$(Q)$(NVCC) -shared -cudart shared -o $@ $^ -L$(dir $(CUBLAS_SO)) -lcublas -ldl \
	  -Xlinker -rpath,$(patsubst %/,%,$(dir $(CUBLAS_SO)))

# The same tests on a real device, for tests/gpu.sh.
GPU_TESTS := $(BUILD)/gpu/test_cuda_kernels $(BUILD)/gpu/test_cuda_engine

gpu-tests: $(GPU_TESTS)

$(GPU_TESTS): $(BUILD)/gpu/%: tests/cuda/%.c $(CUDA_OBJECTS) $(LIBRARY)
	$(call say,LINK)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -DMT_REAL_DEVICE -c -o $@.o $<
	$(Q)$(CXX) $(OPT) -fopenmp $(LDFLAGS) -o $@ $@.o $(CUDA_OBJECTS) $(LIBRARY) -lcmocka $(LDLIBS) \
	  -L$(dir $(CUBLAS_SO)) -Wl,-rpath,$(patsubst %/,%,$(dir $(CUBLAS_SO))) -lcublas -lcudart -ldl

# A device that only accounts for memory, for the program that nvcc built: preloaded libraries.
CUDA_MAJOR = $(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
STANDIN   := $(BUILD)/standin

standin: $(STANDIN)/preload
ifeq ($(CUDA_MISSING),)
CUDA_CHECKS += standin
export MEMTRACE_STANDIN := $(STANDIN)
endif

$(STANDIN)/preload: $(wildcard tests/cuda_standin/*.[ch])
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)for l in cudart cublas; do \
	  printf 'lib%s.so.%s { global: *; };\n' $$l $(CUDA_MAJOR) >$(@D)/$$l.map; \
	  $(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARN) -fPIC -shared -I$(dir $(CUBLAS_H)) \
	    -Wl,-soname,lib$$l.so.$(CUDA_MAJOR) -Wl,--version-script,$(@D)/$$l.map \
	    -o $(@D)/lib$$l.so.$(CUDA_MAJOR) tests/cuda_standin/$$l.c || exit 1; \
	done
	$(Q)$(CC) -std=c11 -O2 $(WARN) -fPIC -shared -Wl,-soname,libcuda.so.1 -o $(@D)/libcuda.so.1 tests/cuda_standin/cuda.c
	$(Q)echo "$(abspath $(@D))/libcudart.so.$(CUDA_MAJOR):$(abspath $(@D))/libcublas.so.$(CUDA_MAJOR):$(abspath $(@D))/libcuda.so.1" >$@

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
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 $(OPT) $(WARN) -Itests/cuda_emulation/include -I. -MMD -MP -c -o $@ $<

$(BUILD)/tests/test_emulation: $(EMULATION)
	$(call say,LINK)
	$(Q)$(CXX) $(OPT) $(LDFLAGS) -o $@ $^ -lcmocka -lopenblas -lpthread

# The back end on that device: linked into memtrace-emulated and into the tests of tests/cuda.
EMULATOR := $(filter-out $(BUILD)/tests/cuda_emulation/test_%.o,$(EMULATION))
EMULATED := $(CUDA_SOURCES:kernels/cuda/%.cu=$(BUILD)/emulated/%.o)

emulated: $(PROGRAM)-emulated

$(BUILD)/emulated/%.o: kernels/cuda/%.cu
	$(call say,CXX)
	@mkdir -p $(@D)
	$(Q)$(CXX) -x c++ -std=c++17 $(OPT) $(WARN) -ffp-contract=off -D_GNU_SOURCE \
	  -Itests/cuda_emulation/include -I. -MMD -MP -c -o $@ $<

$(BUILD)/emulated/backend.o: cli/backend.c
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -DMT_EMULATED -c -o $@ $<

$(PROGRAM)-emulated: $(BUILD)/cli/main.o $(BUILD)/emulated/backend.o $(EMULATED) $(EMULATOR) $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CXX) $(OPT) -fopenmp $(LDFLAGS) -o $@ $^ $(LDLIBS) -lopenblas -lpthread

$(BUILD)/tests/cuda/%.o: tests/cuda/%.c
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(CUDA_TESTS): $(BUILD)/tests/%: $(BUILD)/tests/cuda/%.o $(EMULATED) $(EMULATOR) $(LIBRARY)
	$(call say,LINK)
	$(Q)$(CXX) $(OPT) -fopenmp $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS) -lopenblas -lpthread

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

check: all $(TESTS) $(CUDA_CHECKS)
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

# Records new runs of the real PyTorch on a simulated device, and compares (a virtual environment of
# some GB in build/oracle).
oracle: $(PROGRAM)
	@MEMTRACE=./$(PROGRAM) sh tests/oracle/live.sh

BENCHES := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/bench_*.c))

bench: all $(BENCHES)
	@sh tests/bench.sh $(BUILD) ./$(PROGRAM)

# Every chart of docs/allocators.md, from data made now.
lab: $(PROGRAM)
	@sh plots/lab.sh ./$(PROGRAM) out/lab

# Other CPU inference programs in a virtual environment (some GB in build/peers), and memtrace among them.
peers: all $(BUILD)/tests/bench_read
	@sh tests/peers/setup.sh
	@BUILD=$(BUILD) MEMTRACE=./$(PROGRAM) python3 tests/peers/bench.py
	@gnuplot -c plots/peers.gp build/peers/peers.dat build/peers/peers.png

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/memtrace/plots
	install -m 755 memtrace $(DESTDIR)$(PREFIX)/bin/memtrace
	if [ -f memtrace-cuda.so ]; then install -D -m 755 memtrace-cuda.so $(DESTDIR)$(PREFIX)/lib/memtrace/memtrace-cuda.so; fi
	install -m 644 plots/*.gp plots/*.awk plots/*.sh $(DESTDIR)$(PREFIX)/share/memtrace/plots

format:
	clang-format -i $(foreach d,$(DIRS) tests kernels kernels/cuda tests/cuda tests/cuda_standin,$(wildcard $(d)/*.[ch] $(d)/*.cu))

clean:
	rm -rf build memtrace memtrace-emulated memtrace-cuda.so out

-include $(OBJECTS:.o=.d) $(EMULATION:.o=.d) $(CUDA_OBJECTS:.o=.d) $(EMULATED:.o=.d) $(wildcard $(BUILD)/tests/cuda/*.d) $(wildcard $(BUILD)/tests/*.d)
