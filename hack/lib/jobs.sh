# Part of hack/setup: long builds, one at a time or side by side, with their progress.
# shellcheck shell=bash

# Each job is a process group of its own, so that an interrupt also ends its compilers.
job_names=()
job_pids=()
job_logs=()
job_counters=()
job_weights=()
job_states=()
unfinished=()

# shellcheck disable=SC2317 # called by the traps
clean_up() {
	local pid
	for pid in "${job_pids[@]}"; do
		[[ -z $pid ]] || kill -- "-$pid" 2>/dev/null || true
	done
	((${#unfinished[@]} == 0)) || rm -rf "${unfinished[@]}"
}
trap clean_up EXIT
# shellcheck disable=SC2317 # called by the traps
interrupted() {
	((${#job_pids[@]} == 0)) || say "interrupted; the next run continues from here"
	exit "$1"
}
trap 'interrupted 130' INT
trap 'interrupted 143' TERM HUP

# start_job NAME SECONDS COUNTER LOG COMMAND...: runs a command or function in the background.
# SECONDS is what it takes on two idle cores; COUNTER is a function that reads LOG and prints
# "DONE TOTAL WHAT"; "0 0 WHAT" before the work can be counted; or nothing.
start_job() {
	job_names+=("$1")
	job_weights+=("$2")
	job_counters+=("$3")
	job_logs+=("$4")
	job_states+=(running)
	local log=$4
	shift 4
	set -m
	"$@" >"$log" 2>&1 9>&- </dev/null &
	set +m
	job_pids+=("$!")
}

# wait_jobs WHAT: shows the progress of all jobs until they have ended, and ends the run if one
# failed. Jobs of a second or two leave no trace.
wait_jobs() {
	local what=$1 start=$SECONDS due=2 every=30 i running=yes status failed=
	[[ ! -t 2 ]] || every=1
	while [[ -n $running && -z $failed ]]; do
		sleep 0.5
		running=
		for i in "${!job_pids[@]}"; do
			[[ ${job_states[i]} == running ]] || continue
			if kill -0 "${job_pids[i]}" 2>/dev/null; then
				running=yes
				continue
			fi
			status=0
			wait "${job_pids[i]}" || status=$?
			job_pids[i]=
			job_states[i]="done"
			((status == 0)) || failed=$i
		done
		if [[ -n $running ]] && ((SECONDS - start >= due)); then
			((due != 2)) || say "building $what"
			due=$((SECONDS - start + every))
			show_progress $((SECONDS - start))
		fi
	done
	[[ ! -t 2 ]] || printf '\r\033[K' >&2
	if [[ -n $failed ]]; then
		explain_failure "building ${job_names[failed]}" "${job_logs[failed]}"
		exit 1
	fi
	((due == 2)) || more "done after $(duration $((SECONDS - start)))"
	job_names=() job_pids=() job_logs=() job_counters=() job_weights=() job_states=()
}

# show_progress ELAPSED: one line: how long it has run, how far each job is, how long it still takes.
show_progress() {
	local elapsed=$1 line i built total what percent all=0 sofar=0 left
	line=$(duration "$elapsed")
	for i in "${!job_names[@]}"; do
		all=$((all + job_weights[i]))
		if [[ ${job_states[i]} == "done" ]]; then
			sofar=$((sofar + job_weights[i]))
			line+=" | ${job_names[i]} done"
			continue
		fi
		built=0 total=0 what=
		read -r built total what < <("${job_counters[i]}" "${job_logs[i]}") || true
		if ((total == 0)); then
			line+=" | ${job_names[i]}${what:+: $what}"
			continue
		fi
		((built <= total)) || built=$total
		# What follows the last count (linking) is part of the work, too.
		percent=$((built * 95 / total))
		sofar=$((sofar + job_weights[i] * percent / 100))
		line+=" | ${job_names[i]} $built of $total $what"
	done
	# Until enough is done to measure by, the estimate is that for two idle cores.
	if ((elapsed < 20 || sofar * 20 < all)); then
		left=$((all > elapsed ? all - elapsed : all))
	else
		left=$((elapsed * (all - sofar) / sofar))
	fi
	line+=" | $(rough "$left") to go"
	if [[ -t 2 ]]; then
		# A line that wraps could not be taken back.
		local columns
		columns=$(tput cols 2>/dev/null) || columns=80
		line="       $line"
		printf '\r\033[K%s' "${line:0:columns-1}" >&2
	else
		more "$line"
	fi
}

# run_job NAME SECONDS LOG COMMAND...: one job whose progress cannot be counted.
run_job() {
	local name=$1 seconds=$2 log=$3
	shift 3
	start_job "$name" "$seconds" no_count "$log" "$@"
	wait_jobs "$name"
}
no_count() { :; }

# explain_failure WHAT LOG: the end of the log, and the next step for the usual causes.
explain_failure() {
	local what=$1 log=$2
	say "$what failed. The last lines of $log:"
	tr '\r' '\n' <"$log" | tail -n 20 | cut -c 1-200 | sed 's/^/       | /' >&2
	if grep -qiE 'no space left on device' "$log"; then
		more "The disk is full: free about 5 GB (df -h shows where), then run this again."
	elif grep -qE 'signal: killed|out of memory|cannot allocate memory' "$log"; then
		more "It ran out of memory: run this again with GOMAXPROCS=1 CARGO_BUILD_JOBS=1 (about 4 GB are enough)."
	elif grep -qE 'dial tcp|no such host|i/o timeout|TLS handshake|x509:|connection re|403 Forbidden|Could not resolve|spurious network' "$log"; then
		more "A package registry could not be reached: check the network and your proxy" \
			"settings (go env GOPROXY; cargo's [source] settings), then run this again."
	elif grep -qE 'requires go >=|toolchain not available|unknown directive: tool' "$log"; then
		more "The Go toolchain is too old: see the line on it above for the version it wants."
	else
		more "Look at the whole log; once the cause is removed, run this again: what was" \
			"already compiled is kept."
	fi
}

# lock_builds DIR: one run at a time builds in DIR; held until this one ends.
lock_builds() {
	mkdir -p "$1"
	exec 9>"$1/.lock"
	if ! flock -n 9; then
		say "another run is building in $1; waiting for it"
		flock 9
	fi
}
