# Two commands do it all with nothing but Go and make: `make bench` and `make test`.
# Every target of this file measures or tests against the built-in fake server.

GO       ?= go
BENCH    ?= .
COUNT    ?= 10
POLICY   ?=
ITERS    ?= 16
FUZZTIME ?= 10s
TRIALS   ?= 8000
RUNS     ?= 1
ROUNDS   ?= 5
ONLY     ?=

# A stray OPENAI_BASE_URL must not be loaded by a make target.
export TOKPACE_TARGET = fake

.PHONY: help bench test compare gate lint race smoke fuzz selftest gate-sim perf perf-tools full rename rename-check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

bench: ## measure the built-in fake server (BENCH=pattern), about a minute
	$(GO) test ./benchtests -run '^$$' -bench '$(BENCH)'

test: ## all tests, offline once the modules are there
	$(GO) test ./...

compare: ## compare with another commit: make compare BASE=main [BENCH=pattern] [COUNT=10] [ITERS=16]
	$(call ab,compare,-benchstat -force -count '$(COUNT)')

gate: ## judge a change, fails if it is worse: make gate BASE=main [BENCH=pattern] [ITERS=16] [POLICY=file]
	$(call ab,gate,$(if $(POLICY),-policy '$(POLICY)'))

# ab runs the command's comparison for a target, with further flags.
define ab
	@test -n '$(BASE)' || { echo 'make $(1): say what to compare with, as in: make $(1) BASE=main' >&2; exit 2; }
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && trap 'exit 130' INT && trap 'exit 143' TERM && trap 'exit 129' HUP && \
	GOTMPDIR="$$tmp" $(GO) build -buildvcs=false -o "$$tmp/tokpace" ./pkg/cmd/tokpace && \
	"$$tmp/tokpace" ab -base '$(BASE)' -bench '$(BENCH)' -iters '$(ITERS)' $(2)
endef

lint: ## gofmt, vet on three systems, staticcheck, actionlint, go.mod tidy
	@files=$$(gofmt -l .); test -z "$$files" || { echo "gofmt would change: $$files" >&2; exit 1; }
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) tool actionlint .github/workflows/*.yml
	$(GO) mod tidy -diff

race: ## all tests under the race detector
	$(GO) test -race ./...

smoke: ## one pass of every benchmark, so that none rots
	$(GO) test ./... -run '^$$' -bench . -benchtime=1x

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$f"; \
			$(GO) test $$pkg -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME); \
		done; \
	done

selftest: ## the gate on real runs: the suite with itself, and with changes that it must find (RUNS=10)
	SELFTEST=$(RUNS) $(GO) test ./benchtests -run 'Self(Comparison|Test)' -count=1 -v -timeout 2h

gate-sim: ## how often the gate is wrong: its rule under simulated noise, a few minutes
	GATE_SIM=$(TRIALS) $(GO) test ./pkg/gate -run Simulation -v -count=1 -timeout 30m

perf: ## what is promised of speed and exactness, beside other tools; six minutes on an idle Linux machine (ROUNDS=5, ONLY=pattern of groups)
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && trap 'exit 130' INT && trap 'exit 143' TERM && trap 'exit 129' HUP && \
	cd testdata/perf && $(GO) build -o "$$tmp/perf" . && "$$tmp/perf" -rounds '$(ROUNDS)' -only '$(ONLY)' $(PERFFLAGS)

perf-tools: ## install what make perf compares with: wrk (Debian, as root), hey and vegeta (into the user's cache)
	@cd testdata/perf && $(GO) run . -tools

full: test lint race smoke fuzz rename-check ## what is too long for every push, about an hour
	$(GO) test -count=2 -cpu=1,2 ./...
	LONG=1 $(GO) test ./fakeserver -run H51 -count=1
	LONG=1 $(GO) test ./pkg/load -run Fused -count=1
	cd testdata/perf && $(GO) vet ./...
	README_FULL=1 $(GO) test ./benchtests -run Readme -count=1 -timeout 20m -v
	$(MAKE) selftest RUNS=10

rename: ## give the module its address: make rename MODULE=github.com/you/tokpace
	@test -n '$(MODULE)' || { echo 'make rename: say the new path, as in: make rename MODULE=github.com/you/tokpace' >&2; exit 2; }
	@$(GO) mod edit -module '$(MODULE)' -print >/dev/null
	@old=$$($(GO) list -m) && \
	grep -rlF --include='*.go' --include='*.md' --include='*.txtar' --include='*.yml' --include=go.mod "$$old" . | while read -r f; do \
		sed "s|$$old|$(MODULE)|g" "$$f" > "$$f.renamed" && cat "$$f.renamed" > "$$f" && rm "$$f.renamed"; \
	done && gofmt -w $$($(GO) list -f '{{.Dir}}' ./...) testdata/perf && echo "renamed $$old to $(MODULE)"

rename-check: ## rename a copy and build it
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && git ls-files -z | xargs -0 tar cf - | tar xf - -C "$$dir" && \
	$(MAKE) -C "$$dir" rename MODULE=example.org/other/name && cd "$$dir" && $(GO) vet ./... && \
	! grep -rn 'example.com/tokpace' --include='*.go' . && echo 'rename-check: ok'
