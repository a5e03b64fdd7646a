# Part of hack/setup: Helm, whose linter and renderer check the chart.
# shellcheck shell=bash disable=SC2154 # $here and the functions are hack/setup's

helm_module=helm.sh/helm/v4

helm_path=
ensure_helm() {
	local version log dir
	version=$(version_of "$helm_module" "$here/envtest/helm/go.mod")
	[[ -n $version ]] || fail "cannot read the version of Helm from $here/envtest/helm/go.mod" \
		"Restore this file: git checkout -- hack/envtest"
	find_cache
	dir=$cache/helm/$version-$(machine)
	helm_path=$dir/helm
	[[ ! -x $helm_path ]] || return 0
	check_go Helm
	built_dir=$dir
	lock_builds "$cache/helm"
	[[ ! -x $helm_path ]] || return 0
	mkdir -p "$dir"
	log=$dir/.helm.log
	unfinished+=("$log.unfinished")
	start_job Helm 150 go_count "$log" go_build "$log" "$here/envtest/helm" '-s -w' "$helm_module/cmd/helm"
	wait_jobs "Helm $version (kept in $dir)"
}
