# Part of hack/setup: programs of other projects that the tests of the BMC layer talk to. Debian
# brings the clients, ipmi_sim and snmpd; the rest is built once into the cache, by its pinned versions.
# shellcheck shell=bash disable=SC2154 # $here and the functions are hack/setup's

# Programs, and the Debian packages that they are in.
peer_programs=(ipmitool:ipmitool ipmi_sim:openipmi ipmipower:freeipmi-tools ipmi-sel:freeipmi-tools htpasswd:apache2-utils fence_ipmilan:fence-agents xmllint:libxml2-utils snmpd:snmpd snmpget:snmp)
bench_programs=(curl:curl hyperfine:hyperfine)

peers_dir=
ensure_peers() {
	local sum python log
	find_cache
	sum=$(cat "$here/peers/requirements.txt" "$here/peers/goipmi/go.sum" "$here/peers/kubelet/"{go.sum,main.go} |
		sha256sum | cut -c 1-12)
	peers_dir=$cache/peers/$sum
	[[ ! -e $peers_dir/ready ]] || return 0
	check_go "goipmi-server and kubelet-port-forward"
	python=$(python_with_venv)
	lock_builds "$cache/peers"
	[[ ! -e $peers_dir/ready ]] || return 0
	# A virtual environment cannot be moved, so it is built in its place and gets its mark last.
	rm -rf "$peers_dir"
	mkdir -p "$peers_dir/go"
	log=$cache/peers/.$sum
	start_job "Python programs" 60 no_count "$log.python.log" install_python_peers "$python"
	start_job goipmi-server 40 no_count "$log.go.log" in_module "$here/peers/goipmi" \
		go build -trimpath -o "$peers_dir/go/goipmi-server" github.com/bougou/go-ipmi/cmd/goipmi-server
	start_job kubelet-port-forward 40 no_count "$log.kubelet.log" in_module "$here/peers/kubelet" \
		go build -trimpath -o "$peers_dir/go/kubelet-port-forward" .
	wait_jobs "programs of other projects (sushy-emulator, DMTF's validators, pyghmi, snmpsim, goipmi-server, the port forwarding of a kubelet; kept in $peers_dir)"
	touch "$peers_dir/ready"
	rm -f "$log".*.log
}

install_python_peers() {
	"$1" -m venv "$peers_dir" || return
	"$peers_dir/bin/pip" --disable-pip-version-check install --no-deps -r "$here/peers/requirements.txt"
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
