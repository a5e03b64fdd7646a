# Part of hack/setup: Prometheus and promtool, which check metrics, alerts and the dashboard.
# shellcheck shell=bash disable=SC2154 # $here and the functions are hack/setup's

prometheus_module=github.com/prometheus/prometheus

prometheus_dir=
ensure_prometheus() {
	local version log ours=(prometheus promtool)
	version=$(version_of "$prometheus_module" "$here/envtest/prometheus/go.mod")
	[[ -n $version ]] || fail "cannot read the version of Prometheus from $here/envtest/prometheus/go.mod" \
		"Restore this file: git checkout -- hack/envtest"
	find_cache
	prometheus_dir=$cache/prometheus/$version-$(machine)
	[[ -n $(absent "$prometheus_dir" "${ours[@]}") ]] || return 0
	check_go Prometheus
	built_dir=$prometheus_dir
	lock_builds "$cache/prometheus"
	[[ -n $(absent "$prometheus_dir" "${ours[@]}") ]] || return 0
	mkdir -p "$prometheus_dir"
	log=$prometheus_dir/.prometheus.log
	unfinished+=("$log.unfinished")
	start_job Prometheus 170 go_count "$log" go_build "$log" "$here/envtest/prometheus" '-s -w' \
		"${ours[@]/#/$prometheus_module/cmd/}"
	wait_jobs "Prometheus $version (kept in $prometheus_dir)"
}
