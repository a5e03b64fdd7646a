# Part of hack/setup: the programs by others that the tests of the BMC layer talk to. Debian
# brings the clients and ipmi_sim; the rest is built once into the cache, by its pinned versions.
# shellcheck shell=bash disable=SC2154 # $here and the functions are hack/setup's

# Programs, and the Debian packages that they are in.
peer_programs=(ipmitool:ipmitool ipmi_sim:openipmi ipmipower:freeipmi-tools ipmi-sel:freeipmi-tools htpasswd:apache2-utils fence_ipmilan:fence-agents xmllint:libxml2-utils)
bench_programs=(curl:curl hyperfine:hyperfine)

# want_programs NAME:PACKAGE...: wants the packages of those that are missing.
want_programs() {
	local pair
	# Debian keeps ipmipower and the fence agents where only root's PATH leads.
	for pair in "$@"; do
		PATH=$PATH:/usr/sbin:/usr/local/sbin have "${pair%%:*}" || want "${pair#*:}"
	done
}

peers_dir=
ensure_peers() {
	local sum python log start=$SECONDS
	find_cache
	sum=$(cat "$here/peers/requirements.txt" "$here/peers/goipmi/go.sum" | sha256sum | cut -c 1-12)
	peers_dir=$cache/peers/$sum
	[[ ! -e $peers_dir/ready ]] || return 0
	lock_builds "$cache/peers"
	[[ ! -e $peers_dir/ready ]] || return 0
	# A folder of a virtual environment cannot be moved, so it is built in its place and gets
	# its mark last.
	rm -rf "$peers_dir"
	mkdir -p "$peers_dir"
	log=$cache/peers/.$sum.log
	python=$(python_with_venv)
	say "installing the Python programs that tests talk to (sushy-emulator, DMTF's validators, pyghmi; about 1 min, cached in $peers_dir)"
	if ! run_logged "$log" "$python" -m venv "$peers_dir" ||
		! run_logged "$log" "$peers_dir/bin/pip" --disable-pip-version-check install --no-deps -r "$here/peers/requirements.txt"; then
		explain_failure "installing the Python programs" "$log"
		exit 1
	fi
	check_go "goipmi-server"
	say "building goipmi-server (about 1 min)"
	mkdir -p "$peers_dir/go"
	if ! run_logged "$log" env -C "$here/peers/goipmi" -u GOOS -u GOARCH GOFLAGS=-mod=readonly GO111MODULE=on GOWORK=off CGO_ENABLED=0 \
		nice -n 5 go build -trimpath -o "$peers_dir/go/goipmi-server" github.com/bougou/go-ipmi/cmd/goipmi-server; then
		explain_failure "building goipmi-server" "$log"
		exit 1
	fi
	touch "$peers_dir/ready"
	rm -f "$log"
	more "done after $(duration $((SECONDS - start)))"
}

python_with_venv() {
	local python
	for python in python3 /usr/bin/python3; do
		if "$python" -c 'import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
			printf '%s\n' "$python"
			return
		fi
	done
	fail "there is no Python 3.11 or later with venv" \
		"Install Debian's python3-venv (or another Python 3.11) and run this again."
}
