# Part of hack/setup: Cluster API's manager and its manifests, which tests run beside our controller.
# shellcheck shell=bash disable=SC2154 # $here and the functions are hack/setup's

capi_module=sigs.k8s.io/cluster-api

capi_dir=
ensure_capi() {
	local version log v=$capi_module/version
	version=$(version_of "$capi_module" "$here/envtest/capi/go.mod")
	[[ -n $version ]] || fail "cannot read the version of Cluster API from $here/envtest/capi/go.mod" \
		"Restore this file: git checkout -- hack/envtest"
	find_cache
	capi_dir=$cache/cluster-api/$version-$(machine)
	[[ ! -e $capi_dir/ready ]] || return 0
	check_go "Cluster API's manager"
	built_dir=$cache/cluster-api
	lock_builds "$built_dir"
	[[ ! -e $capi_dir/ready ]] || return 0
	check_space
	rm -rf "$capi_dir"
	mkdir -p "$capi_dir"
	log=$built_dir/.$version.log
	# The stamp is what its own release build sets.
	start_job "Cluster API" 120 go_count "$log" \
		build_capi "$log" "-s -w -X $v.gitVersion=$version -X $v.gitTreeState=clean"
	wait_jobs "Cluster API's manager $version (kept in $capi_dir)"
	touch "$capi_dir/ready"
}

build_capi() {
	local log=$1 module=$here/envtest/capi config
	built_dir=$capi_dir go_build "$log" "$module" "$2" "$capi_module" || return
	mv "$capi_dir/cluster-api" "$capi_dir/manager"
	config=$(in_module "$module" go list -m -f '{{.Dir}}' "$capi_module")/config || return
	# Go keeps its modules read-only.
	cp -r --no-preserve=mode "$config" "$capi_dir/config"
}
