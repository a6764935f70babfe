# Entry points for developers. CMake and the scripts in tools/ do the work. `make help` lists the
# targets.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
SOAK_SCALE ?= 10
ARGS ?=

JOBS := $(shell nproc)
C_FILES = $(shell find . -name '.?*' -prune -o -name 'build*' -prune -o -name '*.[ch]' -print)
configured_build = cmake --preset $(1) >/dev/null && cmake --build --preset $(1) -j $(JOBS)

# Groups of packages in tools/deps.sh.
DEPS = deps-run deps-cluster deps-build deps-check deps-compare deps-bare deps-test

.DEFAULT_GOAL := help
.NOTPARALLEL: # packages are installed before CMake looks for them
.PHONY: help deps $(DEPS) build run run-cluster demo routing check test test-bare test-conditions test-servers test-sources bench bench-cli bench-service bench-redis bench-leveldb bench-rocksdb bench-charts fuzz soak exhaustive format lint analyze install cross coverage clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: deps-test ## install all missing packages; `make deps-run`, deps-build, deps-check and deps-compare install fewer
$(DEPS): deps-%:
	@tools/deps.sh $*

build: deps-build ## build the library and the programs in build/, as shipped
	@$(call configured_build,release)

run: deps-run ## build and start the service with an example database; ARGS="--port 7000"
	@$(MAKE) --no-print-directory -f tools/bloomgated.mk -j $(JOBS)
	@tools/run.sh build-run/bloomgated build-run/example $(ARGS)

run-cluster: deps-cluster ## start a Redis Cluster of 3+3 nodes with one sharded filter; ARGS="--port 7100"
	@cmake -G 'Unix Makefiles' -DCMAKE_BUILD_TYPE=Release -DBG_DEVELOPER=OFF -DBG_SERVER=OFF -S . -B build-cluster >/dev/null
	@cmake --build build-cluster -j $(JOBS) --target bloomgate_cli redis_module
	@tools/run_cluster.sh build-cluster/bin/bloomgate build-cluster/lib/bloomgate.so $(ARGS)

demo: build ## compare the Bloom filter kinds: memory, false-positive rate and speed
	@build/bin/bgdemo $(ARGS)

routing: deps-compare build ## run an example: three levels of filters over LevelDB nodes, published through Redis
	@build/bin/example_15_routing_leveldb

check: deps-check ## check format, layers and prose, and run the fast tests (two minutes after an edit)
	@tools/run_tests.py fast

test: deps-test ## run all tests except the long ones (about 20 minutes)
	@tools/run_tests.py

test-bare: deps-bare ## run `make run` in a bare Debian 12 root, and measure what it installs and how long it takes
	@tests/bare/test_bare.py

test-conditions: deps-test ## run tests on one core, without IPv6, in other locales ...; ARGS="--only user 'cli_'"
	@$(call configured_build,dev)
	@tools/test_conditions.py $(ARGS)

test-servers: deps-test build ## run the Redis module's tests in other servers; SERVERS="PATH PATH"
	@tools/test_servers.py build $(SERVERS)

test-sources: deps-test build ## test gates on every supported database with 1e6 changes; ARGS="--mode sqlite/changes"
	@cmake --build --preset release -j $(JOBS) --target gate_probe
	@/usr/bin/python3 tests/sources/test_sources.py build/bin/gate_probe --changes 1e6 $(ARGS)

bench: deps-compare build ## run the library's benchmarks; ARGS="batch --kind blocked", ARGS=--help
	@build/bin/bgbench $(or $(ARGS),all)

bench-cli: deps-compare build ## compare the command-line tool with wc, bloom, grep, sort and awk; ARGS="--lines 1e8"
	@bench/bench_cli.py build/bin $(ARGS)

bench-service: deps-compare build ## compare the service with redis-server; ARGS="--keys 1e8"
	@bench/bench_service.py build/bin $(ARGS)

bench-redis: deps-compare build ## benchmark the module in redis-server; ARGS="--server valkey-server others"
	@bench/bench_redis.py build $(ARGS)

bench-leveldb: deps-compare build ## compare Bloomgate filters in LevelDB with LevelDB's own; ARGS="--n 1e6 --bits 12"
	@build/bin/bench_leveldb $(ARGS)

bench-rocksdb: deps-compare build ## compare Bloomgate filters in RocksDB with RocksDB's own; ARGS="--keys 1e6"
	@bench/bench_rocksdb.py build $(ARGS)

bench-charts: $(if $(MEASURE),deps-compare build) ## draw the charts in docs/charts from their JSON files; MEASURE=1 runs the measurements first
	@bench/charts.py $(if $(MEASURE),--measure) $(ARGS)

fuzz: deps-test ## run each fuzzer for FUZZ_SECONDS (default: 60)
	@$(call configured_build,fuzz)
	@tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

soak: deps-test build ## run the tests with SOAK_SCALE times the work (default: 10) and a random seed, then a benchmark with up to 1e9 keys
	@cmake --build --preset release -j $(JOBS) --target tests_of_other_builds
	@tests/soak/soak.sh build $(SOAK_SCALE)
	@build/bin/bgbench scale --n 1e5,1e6,1e7,1e8,1e9

exhaustive: deps-build ## test all small corruptions in files of every filter kind, and update the table in TESTING.md
	@cmake --preset release >/dev/null && cmake --build --preset release -j $(JOBS) --target exhaustive_files
	@build/bin/exhaustive_files | tee build/exhaustive.txt
	@tools/put_table.py TESTING.md exhaustive-files < build/exhaustive.txt

format: ## apply .clang-format
	@tools/format.py $(C_FILES)

lint: deps-test ## check formatting and layering, and run clang-tidy
	@tools/run_tests.py lint

analyze: deps-test ## run clang's static analyzer on the shipped code
	@tools/run_tests.py analyze

cross: deps-test ## run unit tests for aarch64, s390x and i386 under qemu
	@tools/run_tests.py cross

coverage: deps-test ## report which lines of src/ the tests cover
	@$(call configured_build,coverage)
	@find build-coverage -name '*.gcda' -delete
	@ctest --test-dir build-coverage -L 'unit|prop|conc|api|fuzz' -j $(JOBS) --output-on-failure >/dev/null
	@gcovr --root . --filter src/ --sort-percentage build-coverage

install: build ## install to PREFIX (default: /usr/local) under DESTDIR
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

clean: ## remove all build directories, including the data of `make run`
	@rm -rf build build-*
