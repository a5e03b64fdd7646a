# shellcheck shell=bash
# Sourced by hack/setup: real Ironic from PyPI, kept in the user's cache.

ironic_dir=
ensure_ironic() {
	local sum python log
	find_cache
	sum=$(sha256sum <"$here/peers/ironic/requirements.txt" | cut -c 1-12)
	ironic_dir=$cache/ironic/$sum
	[[ ! -e $ironic_dir/ready ]] || return 0
	python=$(python_with_venv)
	lock_builds "$cache/ironic"
	[[ ! -e $ironic_dir/ready ]] || return 0
	# A virtual environment cannot be moved, so it is built in its place and gets its mark last.
	rm -rf "$ironic_dir"
	mkdir -p "$ironic_dir"
	log=$cache/ironic/.$sum
	start_job Ironic 60 no_count "$log.log" install_ironic "$python"
	wait_jobs "Ironic (kept in $ironic_dir)"
	touch "$ironic_dir/ready"
	rm -f "$log".log
}

install_ironic() {
	"$1" -m venv "$ironic_dir" || return
	"$ironic_dir/bin/pip" --disable-pip-version-check install --no-deps -r "$here/peers/ironic/requirements.txt"
}
