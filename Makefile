# The front door: thin, everything is done by CMake and the scripts in tools/. `make help` lists it.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
SOAK_SCALE ?= 10
ARGS ?=

JOBS := $(shell nproc)
C_FILES = $(shell find . -name '.?*' -prune -o -name 'build*' -prune -o -name '*.[ch]' -print)
configured_build = cmake --preset $(1) >/dev/null && cmake --build --preset $(1) -j $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help deps build run demo routing test test-servers test-sources bench bench-cli bench-service bench-redis bench-leveldb bench-rocksdb bench-charts fuzz soak exhaustive format lint analyze install cross coverage clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install the packages that are missing
	@tools/deps.sh

build: deps ## build the library and its programs as they are shipped, in build/
	@$(call configured_build,release)

run: build ## start the service with an example; ARGS="--port 7000" and so on
	@tools/run.sh build/bin $(ARGS)

demo: build ## show the kinds of filter: what each costs and what it gives
	@build/bin/bgdemo $(ARGS)

routing: build ## show three levels of filters over LevelDB nodes, published through Redis
	@build/bin/example_15_routing_leveldb

test: deps ## run everything that fits in twenty minutes
	@tools/run_tests.py

test-servers: build ## run the tests of the module in other servers; SERVERS="path path"
	@tools/test_servers.py build $(SERVERS)

test-sources: build ## run every event against every database with 1e6 changes; ARGS="--mode sqlite/changes"
	@cmake --build --preset release -j $(JOBS) --target gate_probe
	@/usr/bin/python3 tests/sources/test_sources.py build/bin/gate_probe --changes 1e6 $(ARGS)

bench: build ## measure speed; ARGS="batch --kind blocked" for a part, ARGS=--help for more
	@build/bin/bgbench $(or $(ARGS),all)

bench-cli: build ## measure the command line against wc, bloom, grep, sort and awk; ARGS="--lines 1e8"
	@bench/bench_cli.py build/bin $(ARGS)

bench-service: build ## measure the service against redis-server; ARGS="--keys 1e8"
	@bench/bench_service.py build/bin $(ARGS)

bench-redis: build ## measure the module inside of redis-server; ARGS="--server valkey-server others"
	@bench/bench_redis.py build $(ARGS)

bench-leveldb: build ## measure our filters in LevelDB against its own; ARGS="--n 1e6 --bits 12"
	@build/bin/bench_leveldb $(ARGS)

bench-rocksdb: build ## measure filters inside RocksDB against its own; ARGS="--keys 1e6"
	@bench/bench_rocksdb.py build $(ARGS)

bench-charts: $(if $(MEASURE),build) ## draw docs/charts from their JSON files; MEASURE=1 measures first
	@bench/charts.py $(if $(MEASURE),--measure) $(ARGS)

fuzz: deps ## run every fuzzer for FUZZ_SECONDS (60) each
	@$(call configured_build,fuzz)
	@tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

soak: build ## run the tests with SOAK_SCALE (10) times the work and a random seed, then scale to 1e9 keys
	@cmake --build --preset release -j $(JOBS) --target tests_of_other_builds
	@tests/soak/soak.sh build $(SOAK_SCALE)
	@build/bin/bgbench scale --n 1e5,1e6,1e7,1e8,1e9

exhaustive: deps ## damage files of every kind in every small way; counts go to TESTING.md
	@cmake --preset release >/dev/null && cmake --build --preset release -j $(JOBS) --target exhaustive_files
	@build/bin/exhaustive_files | tee build/exhaustive.txt
	@tools/put_table.py TESTING.md exhaustive-files < build/exhaustive.txt

format: ## apply .clang-format
	@tools/format.py $(C_FILES)

lint: deps ## check format, layers and clang-tidy
	@tools/run_tests.py lint

analyze: deps ## run clang's static analyzer on what is shipped
	@tools/run_tests.py analyze

cross: deps ## unit tests on aarch64, s390x and i386, under qemu
	@tools/run_tests.py cross

coverage: deps ## which lines of src/ the tests reach
	@$(call configured_build,coverage)
	@find build-coverage -name '*.gcda' -delete
	@ctest --test-dir build-coverage -L 'unit|prop|conc|api|fuzz' -j $(JOBS) --output-on-failure >/dev/null
	@gcovr --root . --filter src/ --sort-percentage build-coverage

install: build ## install to PREFIX (/usr/local) below DESTDIR
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

clean: ## remove all build folders
	@rm -rf build build-*
